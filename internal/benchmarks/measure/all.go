package measure

// What is measured: one file for each group of rows.

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// The groups of rows.
const (
	HandlerGroup   = "handler"
	LegacyGroup    = "legacy"
	AuthorityGroup = "authority" // what it costs to know who is calling
	LoadGroup      = "load"
)

// Groups are the names of all groups.
func Groups() []string {
	return []string{HandlerGroup, LegacyGroup, AuthorityGroup, LoadGroup}
}

// Ops are the operations of all groups that have any.
func Ops() []Op { return slices.Concat(Handler(), Legacy(), Authority()) }

// All returns the cases of some groups, in the order of [Groups].
func All(groups []string) (list []Case, err error) {
	for _, group := range groups {
		if !slices.Contains(Groups(), group) {
			return nil, fmt.Errorf("no such group: %q; there are %q", group, Groups())
		}
	}
	for _, op := range Ops() {
		list = append(list, op.Case())
	}
	list = slices.Concat(list, CachedTokens(), Load())
	return slices.DeleteFunc(list,
		func(c Case) bool { return !slices.Contains(groups, c.Group) }), nil
}

// A workload makes something to repeat, and a function to stop, of a server.
type workload func(http.Handler) (do func() error, stop func(), err error)

// each is a workload for some servers.
func each(servers []Server, group, row string, work workload) (ops []Op) {
	for _, s := range servers {
		ops = append(ops, newOp(group, row, s.Name, s.New, work))
	}
	return ops
}

func newOp(group, row, peer string, newServer func() http.Handler, work workload) Op {
	return Op{Group: group, Row: row, Peer: peer,
		Start: func() (func() error, func(), error) { return work(newServer()) }}
}

// onHandler is a workload that needs no more than a driver.
func onHandler(start func(*wire.Handler) (func() error, error)) workload {
	return func(h http.Handler) (func() error, func(), error) {
		do, err := start(wire.NewHandler(h))
		return do, func() {}, err
	}
}
