// The commands that both official clients understand.
import { z } from 'zod';
import { serve } from './commands.mjs';

export async function commands(make) {
  let client;
  const troubles = []; // what the client reports beside its calls

  await serve({
    async connect(params) {
      let transport;
      ({ client, transport } = make(params));
      client.onerror = error => troubles.push(String(error));
      await client.connect(transport);
      return {
        era: client.getProtocolEra?.() ?? 'legacy',
        version: transport.protocolVersion,
        server: client.getServerVersion(),
        capabilities: client.getServerCapabilities(),
        instructions: client.getInstructions(),
      };
    },
    ping: () => client.ping(),
    tools: async () => (await client.listTools()).tools,
    call: ({ name, args }) => client.callTool({ name, arguments: args }),
    request: ({ method, params }) => client.request({ method, params }, z.looseObject({})),

    // leave calls a tool and goes away after so many milliseconds.
    async leave({ name, args, after }) {
      const signal = AbortSignal.timeout(after);
      const call = client.callTool.length > 2 ? [{ name, arguments: args }, undefined, { signal }] : [{ name, arguments: args }, { signal }];
      await client.callTool(...call);
    },
    troubles: () => troubles,
    close: () => client.close(),
  });
}
