// The demo authorization server of the TypeScript SDK, which asks nobody: whoever comes is its demo user.
//
//	node demoauth.mjs FOLDER-WITH-NODE_MODULES ENDPOINT
//
// It prints its issuer. It ends with its standard input.
import { createRequire } from 'node:module';
import { createServer } from 'node:net';

const [folder, endpoint] = process.argv.slice(2);
const { setupAuthServer } = createRequire(folder + '/')('@modelcontextprotocol/sdk/examples/server/demoInMemoryOAuthProvider.js');

// It listens on a port that it is told.
const free = createServer();
await new Promise(resolve => free.listen(0, '127.0.0.1', resolve));
const { port } = free.address();
await new Promise(resolve => free.close(resolve));

const authServerUrl = new URL('http://127.0.0.1:' + port);
console.log = () => process.stdout.write(authServerUrl.href + '\n'); // it says that it listens
setupAuthServer({ authServerUrl, mcpServerUrl: new URL(endpoint), strictResource: true });
for await (const _ of process.stdin);
process.exit();
