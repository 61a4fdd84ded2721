// Once in a while, however often it is asked for.

/** A function that calls `call` after `ms`, and not again before it has; `cancel` forgets it. */
export function later(call, ms) {
  let timer = 0;
  const soon = () => {
    timer ||= setTimeout(() => {
      timer = 0;
      call();
    }, ms);
  };
  soon.cancel = () => {
    clearTimeout(timer);
    timer = 0;
  };
  return soon;
}
