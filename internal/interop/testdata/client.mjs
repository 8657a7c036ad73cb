// A client of the TypeScript SDK that does what it is told, a line of JSON each way.
//
//	node client.mjs FOLDER-WITH-NODE_MODULES [sdk]
//
// The package is @modelcontextprotocol/client, or @modelcontextprotocol/sdk, the generation before, which knows older revisions
// only.
//
// It is told   {"id":1,"connect":{"endpoint":"http://…","mute":false,"negotiate":{"pin":"2026-07-28"},"headers":{}}}
//              {"id":1,"connect":{"program":"/bin/server","mute":true,"negotiate":"legacy"}}
//              {"id":2,"request":{"method":"tools/call","target":"deploy","args":{"env":"prod"},"progress":false}}
//              {"answer":1,"text":"decline"}
//              {"cancel":2}
//              {"id":3,"disconnect":true}, or "session", which ends the session first
// and says     {"id":2,"text":"deployed"}, {"id":2,"error":"…"}
//              {"ask":1,"question":"Deploy to prod?"}, with a "url" for a visit
//              {"progress":true}
//              {"changed":true} when the list of tools is another
// Answers are "decline", "cancel", or the JSON of a form, {} for a visit; texts of a model; directories, with spaces between.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(process.argv[2] + '/');
const old = process.argv[3] === 'sdk';
const from = paths => Object.assign({}, ...paths.map(path => require('@modelcontextprotocol/' + path)));
const { Client, StdioClientTransport, StreamableHTTPClientTransport } = old
    ? from(['sdk/client/index.js', 'sdk/client/stdio.js', 'sdk/client/streamableHttp.js'])
    : from(['client', 'client/stdio']);
const schemas = old ? from(['sdk/types.js']) : {};
const asked = (method, schema) => (old ? schemas[schema] : method); // how a handler is registered

const say = message => process.stdout.write(JSON.stringify(message) + '\n');

const waiting = new Map(); // by number, who waits for an answer
let number = 0;
const ask = (question, url) =>
    new Promise(resolve => {
        waiting.set(++number, resolve);
        say({ ask: number, question, url });
    });

let client;

async function disconnect(what) {
    if (what === 'session') await client.transport.terminateSession();
    await client.close();
    return '';
}

async function connect({ endpoint, program, mute, negotiate, headers }) {
    const capabilities = mute ? {} : { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
    client = new Client({ name: 'interop', version: '1.0.0' }, { capabilities, versionNegotiation: { mode: negotiate } });
    if (!mute) {
        client.setRequestHandler(asked('elicitation/create', 'ElicitRequestSchema'), async ({ params }) => {
            const answer = await ask(params.message, params.url);
            if (answer === 'decline' || answer === 'cancel') return { action: answer };
            return params.mode === 'url' ? { action: 'accept' } : { action: 'accept', content: JSON.parse(answer) };
        });
        client.setRequestHandler(asked('sampling/createMessage', 'CreateMessageRequestSchema'), async ({ params }) => ({
            role: 'assistant',
            model: 'model-1',
            content: { type: 'text', text: await ask([params.messages[0].content].flat()[0].text) }
        }));
        client.setRequestHandler(asked('roots/list', 'ListRootsRequestSchema'), async () => ({
            roots: (await ask('roots')).split(' ').map(uri => ({ uri }))
        }));
    }
    client.setNotificationHandler(asked('notifications/tools/list_changed', 'ToolListChangedNotificationSchema'), () =>
        say({ changed: true })
    );
    await client.connect(
        program ? new StdioClientTransport({ command: program }) : new StreamableHTTPClientTransport(new URL(endpoint), { requestInit: { headers } })
    );
    return '';
}

const texts = blocks => blocks.map(block => block.text ?? block.type).join(' ');

// perform returns what came of a request as text.
async function perform({ method, target, args, more, progress, timeout }, signal) {
    switch (method) {
        case 'tools/call': {
            const result = await client.callTool(
                { name: target, arguments: more ? { ...args, ...more } : args },
                ...(old ? [undefined] : []), // a schema for the result
                { signal, ...(timeout ? { timeout } : {}), ...(progress ? { onprogress: () => say({ progress: true }) } : {}) }
            );
            return (result.isError ? 'error: ' : '') + texts(result.content);
        }
        case 'prompts/get': {
            const result = await client.getPrompt({ name: target, arguments: args });
            return texts(result.messages.map(message => message.content));
        }
        case 'resources/read':
            return texts((await client.readResource({ uri: target })).contents);
        case 'tools/list':
            const { tools } = await client.listTools();
            return target ? JSON.stringify(tools) : tools.map(tool => tool.name).join(' ');
        case 'prompts/list':
            return (await client.listPrompts()).prompts.map(prompt => prompt.name).join(' ');
        case 'resources/list':
            return (await client.listResources()).resources.map(resource => resource.uri).join(' ');
        case 'resources/templates/list':
            return (await client.listResourceTemplates()).resourceTemplates.map(template => template.uriTemplate).join(' ');
    }
    throw new Error(`method ${method} is not known here`);
}

const running = new Map(); // by id, how to cancel a request

for await (const line of createInterface({ input: process.stdin })) {
    const { id, connect: where, disconnect: leave, request, answer, text, cancel } = JSON.parse(line);
    if (answer) {
        waiting.get(answer)(text);
        waiting.delete(answer);
        continue;
    }
    if (cancel) {
        running.get(cancel)?.abort();
        continue;
    }
    const controller = new AbortController();
    if (request) running.set(id, controller);
    // Not awaited: answers must be read meanwhile.
    (where ? connect(where) : leave ? disconnect(leave) : perform(request, controller.signal)).then(
        text => say({ id, text }),
        error => say({ id, error: error.message })
    );
}
await client?.close();
