// Package inspection is what a page for operators learns of the parts of a server. The page puts a
// [Report] into a context, and the Inspect methods of the parts add to it. Outside this module
// nobody can make such a context, so that what the methods know is no general API.
package inspection

import (
	"context"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Report is what parts of a server say of themselves.
type Report struct {
	Running int // requests, those that wait for people included
	// QuestionTTL is how long a person may take for an answer.
	QuestionTTL time.Duration
	Server      Table // its name, version, uptime, replica and key
	Limits      []Limit
	Tables      []Table
	// Sealed is a requestState that is to be opened, and State what came of it.
	Sealed string
	State  *State
}

// A Limit is a bound, and how much of it is used.
type Limit struct {
	Name, Option string // what is bounded, and what sets it
	Used, Bound  int64  // a Bound that is negative is none
	Bytes        bool   // what Used and Bound count
}

// A Table lists what there is of something.
type Table struct {
	Name, Caption string
	Head          []string
	Rows          [][]string
}

// A State is what a requestState says, without what people and authors entrusted to it.
type State struct {
	Refused, KeyID string // why it was not opened, and the key that it names then
	Tables         []Table
}

// AddLimit adds a bound, and how much of it is used.
func (r *Report) AddLimit(name, option string, used, bound int64) {
	r.Limits = append(r.Limits, Limit{name, option, used, bound, false})
}

// AddBytes adds a bound in bytes, and how much of it is used.
func (r *Report) AddBytes(name, option string, used, bound int64) {
	r.Limits = append(r.Limits, Limit{name, option, used, bound, true})
}

// Describe adds a row to the table of the server, unless value is empty.
func (r *Report) Describe(name, value string) {
	if value != "" {
		r.Server.Rows = append(r.Server.Rows, []string{name, value})
	}
}

type key struct{}

// With returns a context for Inspect methods, which add to report.
func With(ctx context.Context, report *Report) context.Context {
	return context.WithValue(ctx, key{}, report)
}

// From returns the report to add to, nil for a context of anybody else.
func From(ctx context.Context) *Report {
	report, _ := ctx.Value(key{}).(*Report)
	return report
}

// NameOf names a principal to the operator.
func NameOf(p protocol.Principal) string {
	switch {
	case p.IsLocal():
		return "the local caller"
	case p.Anonymous():
		return "anybody (anonymous)"
	}
	return p.Subject + " of " + p.Issuer
}

// Ago writes how long ago something was; zero: nothing.
func Ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Took(time.Since(t)) + " ago"
}

// Took writes a duration for people: by its two largest units, from a minute on.
func Took(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
}
