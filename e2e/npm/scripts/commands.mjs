// The common part of these scripts: each reads commands from standard input, one JSON object a line, and answers each with
// one line on standard output, in order. A script ends when its standard input does.
import readline from 'node:readline';

// serve answers {"op", "params"} with {"result"} of handlers[op](params), or with {"error"} when it throws.
export async function serve(handlers) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { op, params } = JSON.parse(line);
    let answer;
    try {
      if (!handlers[op]) throw new Error(`this script has no command ${op}`);
      answer = { result: (await handlers[op](params ?? {})) ?? null };
    } catch (error) {
      answer = { error: { name: error.name, message: String(error.message), code: error.error ?? error.code ?? null, status: error.statusCode ?? null } };
    }
    process.stdout.write(JSON.stringify(answer) + '\n');
  }
  process.exit(0);
}

// Queue hands what is put into it to whoever asks, in order.
export class Queue {
  #items = [];
  #waiting = [];

  put(item) {
    const next = this.#waiting.shift();
    if (next) next(item);
    else this.#items.push(item);
  }

  // take waits for an item for so many milliseconds, and throws when none comes.
  take(ms) {
    if (this.#items.length > 0) return Promise.resolve(this.#items.shift());
    return new Promise((resolve, reject) => {
      const got = item => {
        clearTimeout(timer);
        resolve(item);
      };
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(got), 1);
        reject(new Error(`nothing came within ${ms} ms`));
      }, ms);
      this.#waiting.push(got);
    });
  }

  get size() {
    return this.#items.length;
  }
}
