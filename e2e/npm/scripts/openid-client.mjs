// The npm package openid-client as a connector that asks a person for approval.
import * as client from 'openid-client';
import { serve } from './commands.mjs';

let config;
let pending; // what the running flow has to remember

await serve({
  // register finds the authorization server and registers with it.
  async register({ issuer, metadata }) {
    const options = { algorithm: 'oauth2', execute: [client.allowInsecureRequests] };
    config = await client.dynamicClientRegistration(new URL(issuer), metadata, undefined, options);
    return { id: config.clientMetadata().client_id, server: config.serverMetadata() };
  },

  async device(params) {
    pending = await client.initiateDeviceAuthorization(config, params);
    return pending;
  },

  // poll waits for the person's decision, as often as the server allows.
  poll: ({ within }) => client.pollDeviceAuthorizationGrant(config, pending, undefined, { signal: AbortSignal.timeout(within) }),

  async authorize(params) {
    pending = { verifier: client.randomPKCECodeVerifier(), state: client.randomState() };
    const challenge = await client.calculatePKCECodeChallenge(pending.verifier);
    const url = client.buildAuthorizationUrl(config, { ...params, state: pending.state, code_challenge: challenge, code_challenge_method: 'S256' });
    return url.href;
  },

  // exchange takes the address that the browser was sent to.
  exchange: ({ url, resource }) =>
    client.authorizationCodeGrant(config, new URL(url), { pkceCodeVerifier: pending.verifier, expectedState: pending.state }, { resource }),

  refresh: ({ token }) => client.refreshTokenGrant(config, token),
  revoke: ({ token }) => client.tokenRevocation(config, token),
});
