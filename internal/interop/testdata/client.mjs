// A client of the TypeScript SDK that does what it is told, a line of JSON each way.
//
//	node client.mjs FOLDER-WITH-NODE_MODULES
//
// It is told   {"id":1,"connect":{"endpoint":"http://…","mute":false,"negotiate":{"pin":"2026-07-28"}}}
//              {"id":2,"request":{"method":"tools/call","target":"deploy","args":{"env":"prod"},"progress":false}}
//              {"answer":1,"text":"decline"}
// and says     {"id":2,"text":"deployed"}, {"id":2,"error":"…"}
//              {"ask":1,"question":"Deploy to prod?"}
//              {"progress":true}
// Answers are "decline", "cancel", or the JSON of a form, {} for a visit; texts of a model; directories, with spaces between.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(process.argv[2] + '/');
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');

const say = message => process.stdout.write(JSON.stringify(message) + '\n');

const waiting = new Map(); // by number, who waits for an answer
let asked = 0;
const ask = question =>
    new Promise(resolve => {
        waiting.set(++asked, resolve);
        say({ ask: asked, question });
    });

let client;

async function connect({ endpoint, mute, negotiate }) {
    await client?.close();
    const capabilities = mute ? {} : { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
    client = new Client({ name: 'interop', version: '1.0.0' }, { capabilities, versionNegotiation: { mode: negotiate } });
    if (!mute) {
        client.setRequestHandler('elicitation/create', async ({ params }) => {
            const answer = await ask(params.message);
            if (answer === 'decline' || answer === 'cancel') return { action: answer };
            return params.mode === 'url' ? { action: 'accept' } : { action: 'accept', content: JSON.parse(answer) };
        });
        client.setRequestHandler('sampling/createMessage', async ({ params }) => ({
            role: 'assistant',
            model: 'model-1',
            content: { type: 'text', text: await ask([params.messages[0].content].flat()[0].text) }
        }));
        client.setRequestHandler('roots/list', async () => ({
            roots: (await ask('roots')).split(' ').map(uri => ({ uri }))
        }));
    }
    await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
    return '';
}

const texts = blocks => blocks.map(block => block.text ?? block.type).join(' ');

// perform returns what came of a request as text.
async function perform({ method, target, args, progress }) {
    switch (method) {
        case 'tools/call': {
            const result = await client.callTool(
                { name: target, arguments: args },
                progress ? { onprogress: () => say({ progress: true }) } : undefined
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
            return (await client.listTools()).tools.map(tool => tool.name).join(' ');
        case 'prompts/list':
            return (await client.listPrompts()).prompts.map(prompt => prompt.name).join(' ');
        case 'resources/list':
            return (await client.listResources()).resources.map(resource => resource.uri).join(' ');
        case 'resources/templates/list':
            return (await client.listResourceTemplates()).resourceTemplates.map(template => template.uriTemplate).join(' ');
    }
    throw new Error(`method ${method} is not known here`);
}

for await (const line of createInterface({ input: process.stdin })) {
    const { id, connect: where, request, answer, text } = JSON.parse(line);
    if (answer) {
        waiting.get(answer)(text);
        waiting.delete(answer);
        continue;
    }
    // Not awaited: answers must be read meanwhile.
    (where ? connect(where) : perform(request)).then(
        text => say({ id, text }),
        error => say({ id, error: error.message })
    );
}
await client?.close();
