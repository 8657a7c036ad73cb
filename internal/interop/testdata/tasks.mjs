// The client of the tasks extension for TypeScript, on top of a client of the SDK. It goes through what a client does with tasks,
// says what came of it in one line of JSON, and ends with its standard input.
//
//	node tasks.mjs FOLDER-WITH-NODE_MODULES ENDPOINT
//	node tasks.mjs FOLDER-WITH-NODE_MODULES stdio PROGRAM
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, endpoint, program] = process.argv.slice(2);
const require = createRequire(folder + '/');
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');
const extension = folder + '/node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js';
const { createTaskSessionFromClient } = await import(pathToFileURL(extension));

const protocolVersion = '2026-07-28';
const client = new Client({ name: 'interop', version: '1.0.0' }, { versionNegotiation: { mode: { pin: protocolVersion } } });
const newTransport = () =>
    program ? new StdioClientTransport({ command: program, env: process.env }) : new StreamableHTTPClientTransport(new URL(endpoint));
const transport = newTransport();
await client.connect(transport);

let number = 1000;
const expected = new Map(); // what a program still has to answer, by id
if (program) {
    const { onmessage } = transport;
    transport.onmessage = message => {
        const resolve = expected.get(message.id);
        if (!resolve) return onmessage(message);
        expected.delete(message.id);
        resolve(message);
    };
}

// dispatch sends what the SDK itself does not: requests about tasks, and calls that may become some.
async function dispatch(request, options) {
    const { result, error } = await (program ? write(request) : post(request, options));
    return error ? { kind: 'error', error } : { kind: 'result', result };
}

function write({ method, params }) {
    const id = ++number;
    const answer = new Promise(resolve => expected.set(id, resolve));
    return transport.send({ jsonrpc: '2.0', id, method, params }).then(() => answer);
}

async function post({ method, params }, { signal } = {}) {
    const id = ++number;
    const response = await fetch(endpoint, {
        method: 'POST',
        signal,
        headers: {
            'Content-Type': 'application/json',
            Accept: 'application/json, text/event-stream',
            'MCP-Protocol-Version': protocolVersion,
            'Mcp-Method': method,
            'Mcp-Name': params.taskId ?? params.name
        },
        body: JSON.stringify({ jsonrpc: '2.0', id, method, params })
    });
    const text = await response.text();
    const lines = response.headers.get('Content-Type').startsWith('application/json')
        ? [text]
        : text.split('\n').flatMap(line => (line.startsWith('data: ') ? [line.slice(6)] : []));
    return lines.map(line => JSON.parse(line)).find(message => message.id === id);
}

let asked = 0;
const session = createTaskSessionFromClient(client, {
    endpointId: 'interop',
    rawDispatch: dispatch,
    v2RequestFraming: { protocolVersion, clientInfo: { name: 'interop', version: '1.0.0' }, clientCapabilities: { elicitation: {} } },
    onInputRequest: async request => {
        asked++;
        return { action: 'accept', content: { name: request.params.message } };
    }
});

const texts = ({ result }) => (result.isError ? 'error: ' : '') + result.content.map(block => block.text).join(' ');

async function settled(name) {
    const execution = await session.callTool(name);
    const { outcome } = await execution.settle();
    return [execution.kind, outcome.status, outcome.error?.code ?? outcome.error?.message ?? (outcome.result ? texts(outcome) : '')].join(' ');
}

async function cancelled() {
    const execution = await session.callTool('wait');
    await execution.cancel();
    return (await session.task(execution.handle.taskId).snapshot()).status;
}

// answeredInParts leaves a task at once, and answers its questions one by one.
async function answeredInParts() {
    const execution = await session.callTool('two');
    const { taskId } = execution.handle;
    await execution.detach();
    const task = session.task(taskId);
    // The handle can be read at once; the questions may be there by then.
    const { status } = await task.snapshot();
    const said = [status === 'working' || status === 'input_required' ? 'found' : status];
    const keys = async () => Object.keys((await task.snapshot()).raw.inputRequests ?? {}).sort();
    while ((await keys()).length === 0) await new Promise(resolve => setTimeout(resolve, 200));
    const before = await keys();
    for (const key of before) {
        said.push((await keys()).join('+'));
        await task.updateJson({ [key]: { action: 'accept', content: { name: key } } });
    }
    const reference = { endpointId: 'interop', generation: 'v2', taskId, originalOperation: 'tools/call' };
    const { outcome } = await (await session.resumeTask(reference)).settle();
    return [...said, texts(outcome)].join(' ');
}

const report = {};
const tries = { greet: () => settled('greet'), plain: () => settled('plain'), unwell: () => settled('unwell'), breaks: () => settled('breaks'), cancelled, answeredInParts };
for (const [name, attempt] of Object.entries(tries)) {
    report[name] = await attempt().catch(error => 'threw ' + error);
}
report.asked = asked;
// The same tools without the extension, by the SDK alone.
const alone = new Client({ name: 'interop', version: '1.0.0' }, { versionNegotiation: { mode: { pin: protocolVersion } }, capabilities: { elicitation: { form: {} } } });
alone.setRequestHandler('elicitation/create', async ({ params }) => ({ action: 'accept', content: { name: params.message } }));
await alone.connect(newTransport());
report.aloneGreet = await alone.callTool({ name: 'greet' }).then(result => texts({ result }), error => 'threw ' + error.code);
report.aloneUnwell = await alone.callTool({ name: 'unwell' }).then(result => texts({ result }), error => 'threw ' + error.code);
process.stdout.write(JSON.stringify(report) + '\n');
process.stdin.resume();
await new Promise(resolve => process.stdin.on('end', resolve));
await session.close();
await client.close();
await alone.close();
