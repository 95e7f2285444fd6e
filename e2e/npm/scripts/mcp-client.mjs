// The official TypeScript client, @modelcontextprotocol/client 2.x: of either kind, as connect's mode says.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { commands } from './official.mjs';

await commands(
  ({ url, process, headers, mode, approval }) => ({
    client: new Client({ name: 'herald-npm-proof', version: '1.0.0' }, { versionNegotiation: { mode } }),
    transport: process
      ? new StdioClientTransport(process)
      : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers }, authProvider: approval }),
  }),
  (transport, params) => transport.finishAuth(params),
);
