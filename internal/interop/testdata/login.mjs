// A client of the TypeScript SDK whose person logs in, in a browser that follows redirects.
//
//	node login.mjs FOLDER-WITH-NODE_MODULES client|sdk ENDPOINT 2026-07-28|2025-11-25
//
// The package is @modelcontextprotocol/client, or @modelcontextprotocol/sdk, the generation before, which knows older revisions
// only. Each line of its standard input names a tool, which it calls. It says {"text":"…"} or {"error":"…"}.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [folder, generation, endpoint, revision] = process.argv.slice(2);
const require = createRequire(folder + '/');
const old = generation === 'sdk';
const from = paths => Object.assign({}, ...paths.map(path => require('@modelcontextprotocol/' + path)));
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = old
    ? from(['sdk/client/index.js', 'sdk/client/streamableHttp.js', 'sdk/client/auth.js'])
    : from(['client']);

const callbackURL = 'http://127.0.0.1:53124/callback'; // the browser does not go there

// visit follows redirects to the callback.
async function visit(url) {
    for (let hops = 0; hops < 10 && !url.href.startsWith(callbackURL); hops++) {
        const response = await fetch(url, { redirect: 'manual' });
        const next = response.headers.get('location');
        if (!next) throw new Error(`the browser ends at a page with status ${response.status}`);
        url = new URL(next, url);
    }
    return url.searchParams;
}

// A store for one login, as hosts write it.
class Login {
    redirectUrl = callbackURL;
    clientMetadata = {
        client_name: 'interop', application_type: 'native', redirect_uris: [callbackURL], token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code', 'refresh_token'], response_types: ['code']
    };
    clientInformation = () => this.client;
    saveClientInformation = client => void (this.client = client);
    tokens = () => this.saved;
    saveTokens = tokens => void (this.saved = tokens);
    codeVerifier = () => this.verifier;
    saveCodeVerifier = verifier => void (this.verifier = verifier);
    saveDiscoveryState = state => void (this.discovered = state);
    discoveryState = () => this.discovered;
    redirectToAuthorization = async url => void (this.callback = await visit(url));
}

const login = new Login();
let client;
let transport;

async function connect() {
    transport = new StreamableHTTPClientTransport(new URL(endpoint), { authProvider: login });
    const negotiate = revision === '2026-07-28' ? { pin: revision } : 'legacy';
    client = new Client({ name: 'interop', version: '1.0.0' }, { capabilities: {}, versionNegotiation: { mode: negotiate } });
    await client.connect(transport);
}

// Three logins are more than any call here needs.
async function loggedIn(work) {
    for (let logins = 0; ; logins++) {
        try {
            return await work();
        } catch (err) {
            if (!(err instanceof UnauthorizedError) || logins === 3) throw err;
            await (old ? transport.finishAuth(login.callback.get('code')) : transport.finishAuth(login.callback));
        }
    }
}

async function call(tool) {
    if (!client) {
        await loggedIn(connect);
    }
    const result = await loggedIn(() => client.callTool({ name: tool, arguments: {} }));
    return (result.isError ? 'error: ' : '') + result.content.map(block => block.text).join(' ');
}

for await (const tool of createInterface({ input: process.stdin })) {
    const said = await call(tool).then(text => ({ text }), err => ({ error: String(err) }));
    process.stdout.write(JSON.stringify(said) + '\n');
}
await client?.close();
