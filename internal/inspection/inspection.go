// Package inspection collects a server's parts for an operators' page. The page puts a [Report]
// into a context, and the parts' Inspect methods add to it. Other modules cannot make such a
// context, so this is no general API.
package inspection

import (
	"context"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Report describes the parts of a server.
type Report struct {
	Running int // requests, including those that wait for people
	// QuestionTTL is how long a person may take to answer.
	QuestionTTL time.Duration
	Server      Table // name, version, uptime, replica and key
	Limits      []Limit
	Tables      []Table
	// Sealed is a requestState to open, and State its content.
	Sealed string
	State  *State
}

// A Limit is an upper bound and how much of it is currently used.
type Limit struct {
	Name, Option string // the bounded quantity, and the option that sets it
	Used, Bound  int64  // a negative Bound means no limit
	Bytes        bool   // whether Used and Bound count bytes
}

// A Table lists items of one kind.
type Table struct {
	Name, Caption string
	Head          []string
	Rows          [][]string
}

// A State is a requestState's content, without data of people and authors.
type State struct {
	Refused, KeyID string // why the state was not opened, and the key that it names
	Tables         []Table
}

// AddLimit adds a bound and its use.
func (r *Report) AddLimit(name, option string, used, bound int64) {
	r.Limits = append(r.Limits, Limit{name, option, used, bound, false})
}

// AddBytes adds a bound in bytes and its use.
func (r *Report) AddBytes(name, option string, used, bound int64) {
	r.Limits = append(r.Limits, Limit{name, option, used, bound, true})
}

// Describe adds a row to the server's table, unless value is empty.
func (r *Report) Describe(name, value string) {
	if value != "" {
		r.Server.Rows = append(r.Server.Rows, []string{name, value})
	}
}

type key struct{}

// With returns a context in which Inspect methods add to report.
func With(ctx context.Context, report *Report) context.Context {
	return context.WithValue(ctx, key{}, report)
}

// From returns the report to add to, nil in any other context.
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

// Ago formats the time since t, or returns "" if t is zero.
func Ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Took(time.Since(t)) + " ago"
}

// Took formats a duration for people, from a minute on by its two largest units.
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
