// Package attack plays flows against a server as a client, and judges what comes of them: whether
// both eras ask and answer alike, whether a forged leg completes a flow, and what a tool makes of
// answers that are none.
//
// It knows nothing of package testing. Package roundtriptest runs it in tests, the command
// mcpattack from a shell.
package attack
