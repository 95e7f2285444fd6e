// The npm package standardwebhooks as a verifier, a signer and a sender.
import { Webhook } from 'standardwebhooks';
import { serve } from './commands.mjs';

const signatures = ({ secrets, id, at, body }) =>
  secrets.map(secret => new Webhook(secret).sign(id, new Date(at * 1000), body)).join(' ');

await serve({
  // verify returns the body as the package parsed it, or fails as the package does.
  verify: ({ secret, headers, body }) => new Webhook(secret).verify(body, headers),

  // sign returns the value of webhook-signature: one signature for each secret.
  sign: signatures,

  // send posts a body to a receiver of MCP events, signed with each secret; sent replaces the body after signing.
  async send({ url, secrets, id, at, body, sent, subscription, headers }) {
    const response = await fetch(url, {
      method: 'POST',
      redirect: 'manual',
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': String(at),
        'webhook-signature': signatures({ secrets, id, at, body }),
        'x-mcp-subscription-id': subscription,
        ...headers,
      },
      body: sent ?? body,
    });
    return { status: response.status, body: await response.text() };
  },
});
