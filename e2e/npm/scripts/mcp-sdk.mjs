// The official TypeScript SDK before it was divided, @modelcontextprotocol/sdk 1.x: its client begins with initialize.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { commands } from './official.mjs';

await commands(
  ({ url, process, headers, approval }) => ({
    client: new Client({ name: 'herald-npm-proof', version: '1.0.0' }),
    transport: process
      ? new StdioClientTransport(process)
      : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers }, authProvider: approval }),
  }),
  (transport, params) => transport.finishAuth(params.get('code')),
);
