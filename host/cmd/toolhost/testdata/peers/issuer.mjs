// An OpenID Connect provider with one client for each subject. It issues signed access tokens for machines. The first
// argument is the directory of the npm packages. The provider prints its URL when it listens.
import { pathToFileURL } from 'node:url';
import { createServer } from 'node:http';
import { generateKeyPairSync } from 'node:crypto';

const { Provider } = await import(pathToFileURL(process.argv[2] + '/node_modules/oidc-provider/lib/index.js'));

const jwk = { ...generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }), kid: 'first', alg: 'ES256', use: 'sig' };
const client = (id) => ({
  client_id: id, client_secret: 'secret-of-' + id, grant_types: ['client_credentials'], redirect_uris: [], response_types: [], id_token_signed_response_alg: 'ES256',
});

let handler;
const server = createServer((request, response) => handler(request, response));
server.listen(0, '127.0.0.1', () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(url, {
    clients: ['builder', 'stranger'].map(client),
    jwks: { keys: [jwk] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, audience) => ({
          audience, scope: 'call', accessTokenFormat: 'jwt', accessTokenTTL: 600, jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
    extraTokenClaims: (_, token) => ({ sub: token.clientId, groups: token.clientId === 'builder' ? ['engineering'] : ['sales'] }),
  });
  handler = provider.callback();
  console.log(url);
});
