// The AI SDK's MCP client with its experimental events: an agent that subscribes, and a receiver that it runs.
import http from 'node:http';
import https from 'node:https';
import { createMCPClient, experimental_createMCPEventWebhook as createWebhook } from '@ai-sdk/mcp';
import { Queue, serve } from './commands.mjs';

const subscriptions = new Map(); // what the SDK keeps, by its key
const arrivals = new Queue(); // what the receiver was given
const answers = []; // status of each request that the receiver answered
let failures = 0; // how many events the application refuses from now on
let client;

const store = {
  get: async key => structuredClone(subscriptions.get(key)),
  getById: async id => structuredClone([...subscriptions.values()].find(s => s.id === id)),
  set: async subscription => void subscriptions.set(subscription.key, structuredClone(subscription)),
  update: async (key, patch) => void (subscriptions.has(key) && Object.assign(subscriptions.get(key), patch)),
  delete: async key => void subscriptions.delete(key),
};

const receive = createWebhook({
  store,
  onEvent: async ({ subscription, event }) => {
    if (failures > 0) {
      failures--;
      throw new Error('the application is not ready');
    }
    arrivals.put({ kind: 'event', subscription, event });
  },
  onGap: async ({ subscription, gap }) => arrivals.put({ kind: 'gap', subscription, gap }),
  onTerminated: async ({ subscription, termination }) => arrivals.put({ kind: 'terminated', subscription, termination }),
});

// serveRequest puts the SDK's Request/Response handler behind Node's server.
async function serveRequest(req, res) {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const url = new URL(req.url, 'https://' + req.headers.host);
  const headers = new Headers(Object.entries(req.headers).map(([name, value]) => [name, String(value)]));
  const response = await receive(new Request(url, { method: req.method, headers, body: body.length ? body : undefined }));
  answers.push(response.status);
  res.writeHead(response.status, Object.fromEntries(response.headers));
  res.end(Buffer.from(await response.arrayBuffer()));
}

await serve({
  // listen starts the receiver on loopback, with TLS when a certificate is given, and returns its port.
  listen: ({ cert, key }) =>
    new Promise((resolve, reject) => {
      const server = cert ? https.createServer({ cert, key }, serveRequest) : http.createServer(serveRequest);
      server.on('error', reject);
      server.listen(0, '127.0.0.1', () => resolve(server.address().port));
    }),

  async connect({ url, headers, discover }) {
    client = await createMCPClient({
      transport: { type: 'http', url, headers },
      experimental_events: { store },
      protocolVersionDiscovery: discover ?? true,
    });
    return client.initializeResult;
  },

  tools: async () => (await client.listTools()).tools,

  // call runs a tool as an agent's model would. Without an AI SDK around it the tool is its execute function.
  async call({ name, args }) {
    const tools = await client.tools();
    return tools[name].execute(args, { toolCallId: 'call_1', messages: [] });
  },

  list: () => client.experimental_events.list(),
  subscribe: params => client.experimental_events.subscribe(params),
  refresh: ({ id }) => client.experimental_events.refresh({ id }),
  unsubscribe: ({ id }) => client.experimental_events.unsubscribe({ id }),

  // rotate has the next refresh carry another secret, which alone the receiver accepts from then on.
  async rotate({ id, secret }) {
    const subscription = await store.getById(id);
    await store.update(subscription.key, { delivery: { ...subscription.delivery, secret } });
  },

  kept: () => [...subscriptions.values()],
  fail: ({ times }) => void (failures = times),
  next: ({ within }) => arrivals.take(within ?? 10_000),
  waiting: () => arrivals.size,
  answers: () => answers,
  close: () => client.close(),
});
