package roundtriptest

import "github.com/rondo-mcp/rondo/internal/testing/attack"

// Effects count the effects of handlers that must not happen twice in a flow, and show what
// replay costs: what leaves the handler in each round. They are reset when a flow starts. The
// zero value is ready; methods may be called concurrently.
//
// What goes through [Effects.Transport] is counted by itself. The handler marks the rest.
type Effects struct{ seen attack.Effects }

// Mark counts the effect called name. Call it where a handler charges a card, or sends a mail.
func (e *Effects) Mark(name string) { e.seen.Mark(name) }

// Count returns how often an effect has been marked since the last flow started.
func (e *Effects) Count(name string) int { return e.seen.Count(name) }

// Rounds returns what left the handler in each round of the last flow, in order: marks, and
// requests such as "POST https://bank.example/charges". In revision 2026-07-28 a round is a
// request of the client; in a session one begins whenever a question has been answered.
func (e *Effects) Rounds() [][]string { return e.seen.Rounds() }
