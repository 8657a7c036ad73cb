package upstream_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/naming"
	"github.com/rondo-mcp/rondo/internal/upstream"
)

// A thing is one of an upstream.
type thing struct {
	Name string
	Bad  any
}

// publishThings publishes things of an upstream, and returns what was added as NAME for OWN.
func publishThings(t *testing.T, kind upstream.Kind, all iter.Seq2[*thing, error]) (
	added []string, err error) {
	t.Helper()
	conns, err := upstream.NewConns(upstream.ConnOptions[*stubConn]{
		Name: "up", Unprefixed: []string{"b"}, Claims: new(naming.Claims),
		List: func(_ context.Context, read func(*stubConn) error) error { return read(nil) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conns.Close()
	err = upstream.Publish(t.Context(), conns, &upstream.Listing[*stubConn, thing]{
		Kind: kind,
		All:  func(context.Context, *stubConn) iter.Seq2[*thing, error] { return all },
		Name: func(i *thing) *string { return &i.Name },
		Add: func(i *thing, own string) {
			if own == "refused" {
				panic("no schema")
			}
			added = append(added, i.Name+" for "+own)
		},
		Remove: func(string) {},
	})
	return added, err
}

func things(names ...string) iter.Seq2[*thing, error] {
	return func(yield func(*thing, error) bool) {
		for _, name := range names {
			if !yield(&thing{Name: name}, nil) {
				return
			}
		}
	}
}

func TestThingsArePublishedUnderNamesOfTheUpstream(t *testing.T) {
	for kind, want := range map[upstream.Kind][]string{
		upstream.Tools:             {"up_a for a", "b for b"},
		upstream.Prompts:           {"up_a for a", "b for b"},
		upstream.Resources:         {"up+a for a", "up+b for b"},
		upstream.ResourceTemplates: {"up+a for a", "up+b for b"},
	} {
		if got, err := publishThings(t, kind, things("a", "b")); err != nil ||
			!slices.Equal(got, want) {
			t.Errorf("%ss: got %q, %v", kind, got, err)
		}
	}
	if got, err := publishThings(t, upstream.Tools, nil); err != nil || got != nil {
		t.Errorf("no list: got %q, %v", got, err)
	}
}

func TestWhatCannotBePublishedIsAnError(t *testing.T) {
	many := make([]string, upstream.MaxItems)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	if _, err := publishThings(t, upstream.Prompts, things(many...)); err != nil {
		t.Errorf("as many as may be: %.200v", err)
	}
	unreadable := func(yield func(*thing, error) bool) { yield(nil, errors.New("gone")) }
	bad := func(yield func(*thing, error) bool) { yield(&thing{Name: "p", Bad: func() {}}, nil) }
	for want, all := range map[string]iter.Seq2[*thing, error]{
		"more than 10000 prompts":     things(append(many, "z")...),
		"listing prompts: gone":       unreadable,
		`prompt "p"`:                  bad,
		`prompt "up_refused": no sch`: things("a", "refused"),
		"it is listed twice":          things("a", "a"),
	} {
		if _, err := publishThings(t, upstream.Prompts, all); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %.200v, want %s", err, want)
		}
	}
}
