// A server of the TypeScript SDK, of the generation that knows older revisions only. It plays the script of script_test.go, and
// its handlers put their questions while the request runs.
//
//	EFFECTS=FILE node server.mjs FOLDER-WITH-NODE_MODULES stdio|http
//
// Each call of a tool that begins is a line more in the file of EFFECTS, if that is set.
// Over HTTP it prints its address; it ends with its standard input.
import { createRequire } from 'node:module';
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';

const require = createRequire(process.argv[2] + '/');
const from = path => require('@modelcontextprotocol/sdk/' + path);
const { Server } = from('server/index.js');
const { StdioServerTransport } = from('server/stdio.js');
const { StreamableHTTPServerTransport } = from('server/streamableHttp.js');
const types = from('types.js');

const confirm = { type: 'object', properties: { reason: { type: 'string', minLength: 3 } }, required: ['reason'] };
const region = { type: 'object', properties: { name: { type: 'string', enum: ['eu', 'us'] } }, required: ['name'] };
const size = { type: 'object', properties: { cores: { type: 'integer', default: 2 }, spare: { type: 'boolean' } } };
const contact = { type: 'object', properties: { email: { type: 'string', format: 'email' } }, required: ['email'] };

const outcomes = { accept: 'accepted', decline: 'declined', cancel: 'cancelled' };

// Every question is sent on the stream of the request that it relates to, and needs what the client has declared.
function questions(server, extra) {
    const needs = (what, has) => {
        if (!has) throw new Error('the client does not support ' + what);
    };
    const caps = server.getClientCapabilities() ?? {};
    const elicit = params => extra.sendRequest({ method: 'elicitation/create', params }, types.ElicitResultSchema);
    const form = (message, requestedSchema) => {
        needs('elicitation', caps.elicitation);
        return elicit({ mode: 'form', message, requestedSchema });
    };
    return {
        form,
        async accepted(key, message, schema) {
            const { action, content } = await form(message, schema);
            if (action !== 'accept') throw new Error('declined: ' + key);
            return content;
        },
        visit(message, url) {
            needs('elicitation', caps.elicitation?.url);
            return elicit({ mode: 'url', message, url, elicitationId: randomUUID() });
        },
        async sample(text) {
            const params = { maxTokens: 100, messages: [{ role: 'user', content: { type: 'text', text } }] };
            return extra.sendRequest({ method: 'sampling/createMessage', params }, types.CreateMessageResultSchema);
        },
        async roots() {
            const { roots } = await extra.sendRequest({ method: 'roots/list' }, types.ListRootsResultSchema);
            return roots.map(root => root.uri).join(' ');
        }
    };
}

const tools = {
    plain: async () => 'plain',
    poll: async () => 'ready',
    async deploy(ask, { env }) {
        const { action, content } = await ask.form(`Deploy to ${env}?`, confirm);
        return action === 'accept' ? `deployed to ${env}: ${content.reason}` : `left ${env} alone: ${outcomes[action]}`;
    },
    async wizard(ask) {
        const { name } = await ask.accepted('region', 'Which region?', region);
        const { cores } = await ask.accepted('size', `How big in ${name}?`, size);
        const { email } = await ask.accepted('contact', 'Who is told?', contact);
        return `${cores} cores in ${name} for ${email}, saw ${name}`;
    },
    async provision(ask) {
        const { name } = await ask.accepted('region', 'Which region?', region);
        return JSON.stringify({ region: name });
    },
    async fail(ask) {
        await ask.accepted('confirm', 'Fail?', confirm);
        throw new Error('the disk is full');
    },
    async slow(ask, args, extra) {
        const progressToken = extra._meta?.progressToken;
        if (progressToken !== undefined)
            await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, progress: 1, total: 2 } });
        await ask.accepted('confirm', 'Go on?', confirm);
        return 'went on';
    },
    async summarize(ask) {
        const { model, content } = await ask.sample('Summarize.');
        return `${model} says: ${content.text}`;
    },
    tidy: async ask => 'tidied ' + (await ask.roots()),
    sign_in: async ask => 'visit ' + outcomes[(await ask.visit('Sign in', 'https://example.com/in')).action],
    async survey(ask) {
        const [sure, said, roots, visit] = await Promise.all([
            ask.form('Sure?', confirm),
            ask.sample('Summarize.'),
            ask.roots(),
            ask.visit('Sign in', 'https://example.com/in')
        ]);
        return `${outcomes[sure.action]} ${sure.content.reason}, ${said.content.text}, ${roots}, visit ${outcomes[visit.action]}`;
    }
};

function newServer() {
    const server = new Server({ name: 'script', version: '1.0.0' }, { capabilities: { tools: {}, prompts: {}, resources: {} } });
    server.setRequestHandler(types.ListToolsRequestSchema, async () => ({
        tools: Object.keys(tools).map(name => ({ name, description: 'Of the script.', inputSchema: { type: 'object' } }))
    }));
    server.setRequestHandler(types.CallToolRequestSchema, async ({ params }, extra) => {
        if (!tools[params.name]) throw new types.McpError(types.ErrorCode.InvalidParams, 'nothing is called ' + params.name);
        if (process.env.EFFECTS) appendFileSync(process.env.EFFECTS, params.name + '\n');
        const text = text => [{ type: 'text', text }];
        try {
            return { content: text(await tools[params.name](questions(server, extra), params.arguments, extra)) };
        } catch (error) {
            return { isError: true, content: text(error.message) };
        }
    });
    server.setRequestHandler(types.ListPromptsRequestSchema, async () => ({
        prompts: [{ name: 'brief', description: 'Of the script.', arguments: [{ name: 'topic' }] }]
    }));
    server.setRequestHandler(types.GetPromptRequestSchema, async ({ params }, extra) => {
        const { email } = await questions(server, extra).accepted('contact', 'Who reads it?', contact);
        const text = `Write about ${params.arguments.topic} for ${email}`;
        return { messages: [{ role: 'user', content: { type: 'text', text } }] };
    });
    server.setRequestHandler(types.ListResourcesRequestSchema, async () => ({ resources: [{ name: 'codes', uri: 'vault://codes' }] }));
    server.setRequestHandler(types.ListResourceTemplatesRequestSchema, async () => ({
        resourceTemplates: [{ name: 'box', uriTemplate: 'vault://box/{box}' }]
    }));
    server.setRequestHandler(types.ReadResourceRequestSchema, async ({ params: { uri } }, extra) => {
        const { reason } = await questions(server, extra).accepted('confirm', `Open ${uri}?`, confirm);
        return { contents: [{ uri, text: 'opened: ' + reason }] };
    });
    return server;
}

if (process.argv[3] === 'stdio') {
    await newServer().connect(new StdioServerTransport());
} else {
    const sessions = new Map(); // transports by id
    const listener = createServer(async (req, res) => {
        let transport = sessions.get(req.headers['mcp-session-id']);
        if (!transport) {
            transport = new StreamableHTTPServerTransport({
                sessionIdGenerator: randomUUID,
                onsessioninitialized: id => void sessions.set(id, transport)
            });
            await newServer().connect(transport);
        }
        await transport.handleRequest(req, res);
    });
    listener.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));
    process.stdin.resume().on('end', () => process.exit());
}
