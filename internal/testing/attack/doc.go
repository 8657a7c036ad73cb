// Package attack plays flows against a server as a client, and judges the outcomes: whether both
// eras ask and answer alike, whether a forged leg completes a flow, and how a tool handles invalid
// answers. It is independent of package testing. Package roundtriptest uses it in tests, and the
// command mcpattack in a shell.
package attack
