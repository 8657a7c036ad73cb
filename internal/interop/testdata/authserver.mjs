// An authorization server that nobody of ours has written, npm's oidc-provider. Its person is alice, who is logged in and consents
// to everything.
//
//	node authserver.mjs FOLDER-WITH-NODE_MODULES [SETTINGS]
//
// SETTINGS is JSON: with "pages" the person logs in and consents on the pages that oidc-provider brings, by any name; "key" is the
// public JWK of the client "keyed" (private_key_jwt).
//
// It prints its issuer, and then a line for each command that it has carried out: "rotate" replaces the key that it signs with, and
// from "brief" on access tokens end after a second. They are opaque for a resource whose path ends with /opaque, and JSON Web Tokens
// for all others. It ends with its standard input.
import { createRequire } from 'node:module';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

console.warn = console.info = () => {}; // it warns of what tests have no use for: memory, http, development keys
const folder = process.argv[2] + '/';
const { pages = false, key } = JSON.parse(process.argv[3] ?? '{}');
const load = async name => import(pathToFileURL(createRequire(folder).resolve(name)));
const { default: Provider } = await load('oidc-provider');
// With its own store each provider would forget what the one before has issued.
const { default: MemoryAdapter } = await import(pathToFileURL(folder + 'node_modules/oidc-provider/lib/adapters/memory_adapter.js'));
class SharedAdapter extends MemoryAdapter {}
const { exportJWK, generateKeyPair } = await load('jose');

async function newKey() {
    const { privateKey } = await generateKeyPair('ES256', { extractable: true });
    return { ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig' };
}


const tokenFormat = resource => ({
    scope: 'read write',
    audience: resource,
    accessTokenFormat: resource.endsWith('/opaque') ? 'opaque' : 'jwt',
    jwt: { sign: { alg: 'ES256' } }
});

const clients = [
    {
        client_id: 'known', client_secret: 'known-secret', token_endpoint_auth_method: 'client_secret_basic',
        application_type: 'native', redirect_uris: ['http://127.0.0.1/callback'],
        grant_types: ['authorization_code', 'refresh_token']
    },
    {
        client_id: 'resource-server', client_secret: 'resource-secret', token_endpoint_auth_method: 'client_secret_basic',
        redirect_uris: [], grant_types: [], response_types: []
    }
];
if (key) {
    clients.push({
        client_id: 'keyed', jwks: { keys: [key] }, token_endpoint_auth_method: 'private_key_jwt',
        application_type: 'native', redirect_uris: ['http://127.0.0.1/callback'],
        grant_types: ['authorization_code', 'refresh_token', 'client_credentials'], scope: 'openid offline_access read write'
    });
}

async function newProvider(issuer) {
    const provider = new Provider(issuer, {
        adapter: SharedAdapter,
        clients,
        clientDefaults: { id_token_signed_response_alg: 'ES256' },
        clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'],
        cookies: { keys: ['cookies of a test'] },
        features: {
            clientCredentials: { enabled: true },
            clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
            devInteractions: { enabled: pages },
            introspection: { enabled: true },
            registration: { enabled: true },
            revocation: { enabled: true },
            resourceIndicators: {
                enabled: true,
                getResourceServerInfo: (_, resource) => tokenFormat(resource),
                useGrantedResource: () => true
            }
        },
        // Without its guard against addresses such as those of the test's documents.
        fetch: (url, { dispatcher, ...options }) => globalThis.fetch(url, options),
        findAccount: (_, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
        ...(pages ? {} : { interactions: { url: (_, interaction) => '/consent/' + interaction.uid } }),
        issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
        jwks: { keys: [await newKey()] },
        pkce: { required: () => true },
        rotateRefreshToken: true,
        scopes: ['openid', 'offline_access', 'read', 'write'],
        ttl: {
            AccessToken: () => lifetime, ClientCredentials: () => lifetime,
            AuthorizationCode: 60, Grant: 3600, IdToken: 3600, Interaction: 60, RefreshToken: 3600, Session: 3600
        }
    });
    provider.on('server_error', (_, err) => console.error(err));
    return provider;
}

// consent answers what the provider would ask alice.
async function consent(provider, req, res) {
    const { prompt, params, session, grantId } = await provider.interactionDetails(req, res);
    if (prompt.name === 'login') {
        return provider.interactionFinished(req, res, { login: { accountId: 'alice' } });
    }
    const grant = (grantId && (await provider.Grant.find(grantId))) ||
        new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    const { missingOIDCScope, missingResourceScopes } = prompt.details;
    if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(' '));
    for (const [resource, scopes] of Object.entries(missingResourceScopes ?? {})) {
        grant.addResourceScope(resource, scopes.join(' '));
    }
    return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}

let provider;
let lifetime = 3600; // of access tokens, in seconds
const server = createServer((req, res) => {
    const answer = req.url.startsWith('/consent/') ? consent(provider, req, res) : provider.callback()(req, res);
    answer.catch(err => {
        console.error(err);
        res.statusCode = 500;
        res.end();
    });
});
server.listen(0, '127.0.0.1', async () => {
    const issuer = 'http://127.0.0.1:' + server.address().port;
    provider = await newProvider(issuer);
    console.log(issuer);
    for await (const line of createInterface({ input: process.stdin })) {
        if (line === 'brief') lifetime = 1;
        if (line === 'rotate') provider = await newProvider(issuer);
        console.log(line);
    }
    server.closeAllConnections();
    server.close();
});
