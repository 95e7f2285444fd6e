// The commands that both official clients understand.
import { z } from 'zod';
import { serve } from './commands.mjs';

// Approval is what a client keeps on its way through OAuth; it opens no browser but says where one has to go.
class Approval {
  constructor(redirect) {
    this.redirectUrl = redirect;
    this.clientMetadata = {
      client_name: 'Official client',
      redirect_uris: [redirect],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    };
  }
  state() {
    return (this.asked ??= crypto.randomUUID());
  }
  clientInformation() {
    return this.client;
  }
  saveClientInformation(client) {
    this.client = client;
  }
  tokens() {
    return this.kept;
  }
  saveTokens(tokens) {
    this.kept = tokens;
  }
  redirectToAuthorization(url) {
    this.address = url.href;
  }
  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }
  codeVerifier() {
    return this.verifier;
  }
  saveDiscoveryState(state) {
    this.discovered = state;
  }
  discoveryState() {
    return this.discovered;
  }
}

// commands serves a client. make returns one with its transport; finish tells a transport where the browser came back to.
export async function commands(make, finish) {
  let client, transport, approval, asked;
  const troubles = []; // what the client reports beside its calls, since it connected

  async function connect(params) {
    ({ client, transport } = make({ ...params, approval }));
    troubles.length = 0;
    client.onerror = error => troubles.push(String(error));
    await client.connect(transport);
    return {
      era: client.getProtocolEra?.() ?? 'legacy',
      version: transport.protocolVersion,
      server: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions(),
    };
  }

  await serve({
    connect,

    // ask connects without a credential, and returns where the person has to go to approve.
    async ask(params) {
      approval = new Approval(params.redirect);
      asked = params;
      const error = await connect(params).then(() => new Error('no credential was asked for'), error => error);
      if (!approval.address) throw error;
      return approval.address;
    },

    // admitted goes on with the address that the browser came back to.
    async admitted({ url }) {
      const params = new URL(url).searchParams;
      if (params.get('state') !== approval.asked) throw new Error('another state came back');
      await finish(transport, params);
      return connect(asked);
    },
    token: () => approval.kept.access_token,

    ping: () => client.ping(),
    tools: async () => (await client.listTools()).tools,
    call: ({ name, args }) => client.callTool({ name, arguments: args }),
    request: ({ method, params }) => client.request({ method, params }, z.looseObject({})),
    troubles: () => troubles,
    close: () => client.close(),
  });
}
