// A server of the TypeScript SDK, of the generation that knows 2026-07-28. It plays the part of script_test.go that front doors
// need: its handlers return their questions, and a state that the SDK's codec signs.
//
//	EFFECTS=FILE node modern.mjs FOLDER-WITH-NODE_MODULES stdio|http
//
// Each call that is done is a line more in the file of EFFECTS, if that is set. Over HTTP it prints its address; it ends with its standard input.
import { createRequire } from 'node:module';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { appendFileSync } from 'node:fs';
import { randomBytes } from 'node:crypto';

const require = createRequire(process.argv[2] + '/');
const { Server, createMcpHandler, createRequestStateCodec, inputRequired, inputResponse } = require('@modelcontextprotocol/server');
const { serveStdio } = require('@modelcontextprotocol/server/stdio');

const codec = createRequestStateCodec({ key: randomBytes(32), ttlSeconds: 600 });

const confirm = { type: 'object', properties: { reason: { type: 'string', minLength: 3 } }, required: ['reason'] };
const region = { type: 'object', properties: { name: { type: 'string', enum: ['eu', 'us'] } }, required: ['name'] };
const size = { type: 'object', properties: { cores: { type: 'integer', default: 2 }, spare: { type: 'boolean' } } };
const contact = { type: 'object', properties: { email: { type: 'string', format: 'email' } }, required: ['email'] };

const outcomes = { accept: 'accepted', decline: 'declined', cancel: 'cancelled' };

const ask = async (key, request, kept = {}) =>
    inputRequired({ inputRequests: { [key]: request }, requestState: await codec.mint({ key, kept }) });
const form = (message, requestedSchema) => inputRequired.elicit({ mode: 'form', message, requestedSchema });

// Tools are given their arguments, what answers a key, and what they kept.
const tools = {
    plain: () => 'plain',
    deploy({ env }, answer) {
        const { kind, action, content } = answer('confirm');
        if (kind === 'missing') return ask('confirm', form(`Deploy to ${env}?`, confirm));
        return action === 'accept' ? `deployed to ${env}: ${content.reason}` : `left ${env} alone: ${outcomes[action]}`;
    },
    wizard(args, answer, kept) {
        for (const key of ['region', 'size', 'contact']) {
            const { kind, action, content } = answer(key);
            if (kind === 'elicit' && action !== 'accept') throw new Error('declined: ' + key);
            kept = { ...kept, ...content };
        }
        if (!kept.name) return ask('region', form('Which region?', region), kept);
        if (!kept.cores) return ask('size', form(`How big in ${kept.name}?`, size), kept);
        if (!kept.email) return ask('contact', form('Who is told?', contact), kept);
        return `${kept.cores} cores in ${kept.name} for ${kept.email}, saw ${kept.name}`;
    },
    sign_in(args, answer) {
        const { kind, action } = answer('login');
        if (kind === 'missing') return ask('login', inputRequired.elicitUrl({ message: 'Sign in', url: 'https://example.com/in' }));
        return 'visit ' + outcomes[action];
    },
    summarize(args, answer) {
        const { kind, result } = answer('summary');
        if (kind === 'missing') {
            const messages = [{ role: 'user', content: { type: 'text', text: 'Summarize.' } }];
            return ask('summary', inputRequired.createMessage({ maxTokens: 100, messages }));
        }
        return `${result.model} says: ${[result.content].flat()[0].text}`;
    }
};

function newServer() {
    const server = new Server(
        { name: 'modern', version: '1.0.0' },
        { capabilities: { tools: {} }, requestState: { verify: codec.verify } }
    );
    server.setRequestHandler('tools/list', async () => ({
        tools: Object.keys(tools).map(name => ({ name, description: 'Of the script.', inputSchema: { type: 'object' } }))
    }));
    server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
        const text = text => [{ type: 'text', text }];
        let said;
        try {
            const { kept = {} } = mcpReq.requestState() ?? {};
            said = await tools[params.name](params.arguments ?? {}, key => inputResponse(mcpReq.inputResponses, key), kept);
        } catch (error) {
            return { isError: true, content: text(error.message) };
        }
        if (typeof said !== 'string') return said; // questions
        if (process.env.EFFECTS) appendFileSync(process.env.EFFECTS, params.name + '\n');
        return { content: text(said) };
    });
    return server;
}

if (process.argv[3] === 'stdio') {
    serveStdio(newServer, { legacy: 'reject' });
} else {
    const { fetch } = createMcpHandler(newServer, { legacy: 'reject' });
    const listener = createServer(async (req, res) => {
        const gone = new AbortController();
        res.on('close', () => gone.abort());
        const hasBody = !['GET', 'HEAD'].includes(req.method);
        const response = await fetch(
            new Request('http://' + req.headers.host + req.url, {
                method: req.method,
                headers: Object.entries(req.headers),
                signal: gone.signal,
                ...(hasBody ? { body: Readable.toWeb(req), duplex: 'half' } : {})
            })
        );
        res.writeHead(response.status, Object.fromEntries(response.headers));
        if (!response.body) return res.end();
        await pipeline(Readable.fromWeb(response.body), res).catch(() => {}); // who has left needs no answer
    });
    listener.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));
    process.stdin.resume().on('end', () => process.exit());
}
