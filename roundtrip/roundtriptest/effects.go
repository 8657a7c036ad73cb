package roundtriptest

import "github.com/rondo-mcp/rondo/internal/testing/attack"

// Effects count the effects of handlers that must not happen twice in a flow, and show what replay
// costs. They are reset when a flow starts. The zero value is ready; methods may be called
// concurrently. [Effects.Transport] counts requests; the handler marks the rest.
type Effects struct{ seen attack.Effects }

// Mark counts the effect called name. Call it where a handler charges a card or sends a mail.
func (e *Effects) Mark(name string) { e.seen.Mark(name) }

// Count returns how often an effect was marked since the last flow started.
func (e *Effects) Count(name string) int { return e.seen.Count(name) }

// Rounds returns the last flow's effects by round, in order: marks, and requests such as "POST
// https://bank.example/charges". In revision 2026-07-28 a round is a client request; in a session
// one begins after each answer.
func (e *Effects) Rounds() [][]string { return e.seen.Rounds() }
