// An authorization server that nobody of ours has written, npm's better-auth with its plugin oauth-provider. Its person logs in with
// a form and consents with another.
//
//	node betterauth.mjs FOLDER-WITH-NODE_MODULES NAME PASSWORD RESOURCE SECONDS
//
// It prints its issuer, and then the id of its person. Access tokens live for SECONDS. It ends with its standard input.
import { createRequire } from 'node:module';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const [folder, name, password, resource, seconds] = process.argv.slice(2);
const load = async path => import(pathToFileURL(createRequire(folder + '/').resolve(path)));
const { betterAuth } = await load('better-auth');
const { getAuthTables } = await load('better-auth/db');
const { memoryAdapter } = await load('better-auth/adapters/memory');
const { toNodeHandler } = await load('better-auth/node');
const { jwt } = await load('better-auth/plugins');
const { oauthProvider, oauthProviderAuthServerMetadata } = await load('@better-auth/oauth-provider');

const email = name + '@example.org';

function newAuth(origin) {
    const tables = {};
    const options = {
        baseURL: origin,
        secret: 'a secret of a test that is long enough for it',
        database: memoryAdapter(tables),
        emailAndPassword: { enabled: true },
        telemetry: { enabled: false },
        disabledPaths: ['/token'],
        plugins: [
            jwt(),
            oauthProvider({
                loginPage: '/login',
                consentPage: '/consent',
                scopes: ['openid', 'offline_access', 'read', 'write'],
                resources: [resource],
                clientRegistrationDefaultResources: [resource],
                allowDynamicClientRegistration: true,
                allowUnauthenticatedClientRegistration: true,
                accessTokenExpiresIn: Number(seconds),
                silenceWarnings: { oauthAuthServerConfig: true, openidConfig: true }
            })
        ]
    };
    for (const { modelName } of Object.values(getAuthTables(options))) tables[modelName] = [];
    return betterAuth(options);
}

// The pages that a host of better-auth writes: a form each, which goes to an endpoint of its with the query that it has signed.
const pages = {
    '/login': { fields: '<input name="email"><input name="password" type="password">', endpoint: '/sign-in/email', body: form => ({ email: form.get('email') + '@example.org', password: form.get('password') }) },
    '/consent': { fields: '', endpoint: '/oauth2/consent', body: () => ({ accept: true }) }
};

async function readForm(req) {
    let text = '';
    for await (const chunk of req) text += chunk;
    return new URLSearchParams(text);
}

async function serve(auth, issuer, req, res) {
    const url = new URL(req.url, issuer);
    const page = pages[url.pathname];
    if (url.pathname === '/.well-known/oauth-authorization-server/api/auth') {
        const answer = await oauthProviderAuthServerMetadata(auth)(new Request(url));
        res.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
    } else if (!page) {
        await toNodeHandler(auth)(req, res);
    } else if (req.method === 'GET') {
        res.setHeader('content-type', 'text/html');
        res.end(`<form method="post">${page.fields}<button>Continue</button></form>`);
    } else {
        const headers = { 'content-type': 'application/json', accept: 'application/json', origin: url.origin, cookie: req.headers.cookie ?? '' };
        const body = JSON.stringify({ ...page.body(await readForm(req)), oauth_query: url.search.slice(1) });
        const answer = await auth.handler(new Request(issuer + page.endpoint, { method: 'POST', headers, body }));
        const said = await answer.json();
        if (!said.url) throw new Error(page.endpoint + ' says ' + JSON.stringify(said));
        res.writeHead(302, { location: said.url, 'set-cookie': answer.headers.getSetCookie() }).end();
    }
}

let auth;
const server = createServer((req, res) => {
    serve(auth, auth.options.baseURL + '/api/auth', req, res).catch(err => {
        console.error(err);
        res.statusCode = 500;
        res.end();
    });
});
server.listen(0, '127.0.0.1', async () => {
    const origin = 'http://127.0.0.1:' + server.address().port;
    auth = newAuth(origin);
    const { user } = await auth.api.signUpEmail({ body: { name, email, password } });
    console.log(origin + '/api/auth');
    console.log(user.id);
    for await (const _ of process.stdin);
    server.closeAllConnections();
    server.close();
});
