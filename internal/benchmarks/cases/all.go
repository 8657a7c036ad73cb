package cases

import (
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
)

// Groups are the names of all groups.
func Groups() []string {
	return []string{HandlerGroup, GrowthGroup, ClientGroup, LegacyGroup, SessionsGroup,
		WaitingGroup, RouterGroup, RetrofitGroup, ReplicasGroup, AuthorityGroup, LoadGroup,
		StartGroup}
}

// Ops are the operations of all groups that have any.
func Ops() []measure.Op {
	return concat(Handler(), Growth(), Client(), Legacy(), Router(),
		Retrofit(), Authority())
}

// All returns the cases of some groups, in the order of [Groups]. Cleanup
// removes what they need.
func All(groups []string) (list []measure.Case, cleanup func(), err error) {
	for _, group := range groups {
		if !slices.Contains(Groups(), group) {
			return nil, nil, fmt.Errorf("no such group: %q; there are %q", group, Groups())
		}
	}
	for _, op := range Ops() {
		list = append(list, op.Case())
	}
	list = slices.Concat(list, Sessions(), Waiting(), Pending(), Replicas(), CachedTokens(),
		Load())
	cleanup = func() {}
	if slices.Contains(groups, StartGroup) {
		var programs []measure.Case
		if programs, cleanup, err = Start(); err != nil {
			return nil, nil, err
		}
		list = append(list, programs...)
	}
	list = slices.DeleteFunc(list,
		func(c measure.Case) bool { return !slices.Contains(groups, c.Group) })
	return list, cleanup, nil
}
