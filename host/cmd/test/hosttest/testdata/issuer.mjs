// An OpenID Connect provider with one client for each subject. It issues signed access tokens for machines. Clients can
// also register themselves, and get tokens for the person "alice", who consents to everything without a page. The first
// argument is the directory of the npm packages. The provider prints its URL when it listens.
import { pathToFileURL } from 'node:url';
import { createServer } from 'node:http';
import { generateKeyPairSync } from 'node:crypto';

const { Provider } = await import(pathToFileURL(process.argv[2] + '/node_modules/oidc-provider/lib/index.js'));

const jwk = { ...generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }), kid: 'first', alg: 'ES256', use: 'sig' };
const client = (id) => ({
  client_id: id, client_secret: 'secret-of-' + id, grant_types: ['client_credentials'], redirect_uris: [], response_types: [], id_token_signed_response_alg: 'ES256',
});

// A client that its operator registered by hand.
const byHand = {
  client_id: 'by-hand', client_secret: 'secret-of-by-hand', application_type: 'native', grant_types: ['authorization_code', 'refresh_token'],
  redirect_uris: ['http://127.0.0.1/callback'], response_types: ['code'], id_token_signed_response_alg: 'ES256',
};

// The web console of a server, a public client.
const webConsole = {
  client_id: 'console', token_endpoint_auth_method: 'none', application_type: 'native', grant_types: ['authorization_code', 'refresh_token'],
  redirect_uris: ['http://127.0.0.1/login/callback'], response_types: ['code'], id_token_signed_response_alg: 'ES256',
};

// consent answers the provider's questions to a person: who she is, and what the client can do.
async function consent(provider, request, response) {
  const { params, session } = await provider.interactionDetails(request, response);
  const grant = new provider.Grant({ accountId: session?.accountId ?? 'alice', clientId: params.client_id });
  grant.addOIDCScope(params.scope ?? '');
  for (const resource of [params.resource].flat().filter(Boolean)) grant.addResourceScope(resource, 'call tools');
  await provider.interactionFinished(request, response, { login: { accountId: 'alice' }, consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}

let handler;
const server = createServer((request, response) => handler(request, response));
server.listen(0, '127.0.0.1', () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(url, {
    clients: [...['builder', 'stranger'].map(client), byHand, webConsole],
    jwks: { keys: [jwk] },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    scopes: ['openid', 'offline_access', 'call', 'tools'],
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    ttl: { AccessToken: 600, RefreshToken: 86400, Grant: 86400, Session: 600, Interaction: 600 },
    features: {
      registration: { enabled: true },
      revocation: { enabled: true },
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, audience) => ({
          audience, scope: 'call tools', accessTokenFormat: 'jwt', accessTokenTTL: 600, jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
    extraTokenClaims: (_, token) => token.accountId ? { groups: ['engineering'] } : { sub: token.clientId, groups: token.clientId === 'builder' ? ['engineering'] : ['sales'] },
  });
  const callback = provider.callback();
  handler = (request, response) => request.url.startsWith('/interaction/') ? consent(provider, request, response) : callback(request, response);
  console.log(url);
});
