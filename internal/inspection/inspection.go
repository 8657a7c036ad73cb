// Package inspection is what a page for operators learns of the parts of a server. The page puts a
// [Report] into a context, and the Inspect methods of the parts add to it. Outside this module
// nobody can make such a context, so that what the methods know is no general API.
package inspection

import (
	"context"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Report is what parts of a server say of themselves.
type Report struct {
	Running      int // requests, those that wait for people included
	Limits       []Limit
	Sessions     []Session
	SessionCount int // of all
	Tasks        []Task
	// Sealed is a requestState that is to be opened, and State what came of it.
	Sealed string
	State  *State
}

// MaxSessions is how many sessions a report lists.
const MaxSessions = 200

// A Limit is a bound, and how much of it is used.
type Limit struct {
	Name, Option string // what is bounded, and what sets it
	Used, Bound  int64  // a Bound that is negative is none
	Bytes        bool   // they are numbers of bytes
}

// A Session is one of a legacy client. Its id, which is a credential, is not told.
type Session struct {
	Who, Client, Version string
	Idle                 time.Duration // 0: something is under way
	Busy, Running        int           // requests and calls under way; calls that do not wait
}

// A Task is one that this process runs or ran.
type Task struct {
	ID, Tool, Who, Status string
	Created, Changed      time.Time
	TakenOver             bool // from a process that ended
	Deaths                int  // of processes that ran it, since it got further
}

// A State is what a requestState says, without what people and authors entrusted to it.
type State struct {
	// Refused is why it was not opened, and KeyID the key that it names then.
	Refused, KeyID string
	// Stored means that it names an entry of the store, which is not read.
	Stored bool

	Flow, Who, Method, Target, Audience     string
	App, OtherApp, FlowVersion              string
	Round                                   int
	Issued, Expires, Deadline, VisitedSince time.Time
	Bytes                                   int // as claims, before they are sealed
	Parts                                   []Part
}

// A Part is a question, an answer, a memo or the author's state: its key and its size.
type Part struct {
	Kind, Key, Note string
	Bytes           int
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
	case p.Issuer == "":
		return p.Subject
	}
	return p.Subject + " of " + p.Issuer
}
