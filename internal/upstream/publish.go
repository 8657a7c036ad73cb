package upstream

// This file publishes what an upstream has under the names that are the upstream's by
// configuration.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

// A Listing says how the things of one kind that an upstream has are published. T is the SDK's type
// of them.
type Listing[C Conn, T any] struct {
	Kind Kind
	// All lists them, nil: the upstream has no such list.
	All func(ctx context.Context, on C) iter.Seq2[*T, error]
	// Name returns where one has its name, URI or template.
	Name func(*T) *string
	// Add adds one to the gateway's server, as [Item].Add does. own is what the upstream calls it.
	Add func(item *T, own string)
	// Remove removes one.
	Remove func(name string)
}

// Publish publishes a list of an upstream, and keeps it as the upstream has it. It returns why some
// of it is left out. A list that cannot be read is an error, too, and is read again in the
// background.
func Publish[C Conn, T any](ctx context.Context, conns *Conns[C], l *Listing[C, T]) error {
	refused, err := conns.Lists.Publish(ctx, ListOptions{
		Kind: l.Kind, Remove: l.Remove, Warn: conns.opts.Warn,
		Find: func(ctx context.Context) (items []Item, err error) {
			err = conns.opts.List(ctx, func(on C) error {
				items, err = l.find(ctx, conns, on)
				return err
			})
			return items, err
		},
	})
	return errors.Join(err, refused)
}

// find returns what the upstream lists.
func (l *Listing[C, T]) find(ctx context.Context, conns *Conns[C], on C) (items []Item, err error) {
	all := l.All(ctx, on)
	if all == nil {
		return nil, nil
	}
	for listed, err := range all {
		if err != nil {
			return nil, fmt.Errorf("elicitation upstream: listing %ss: %w", l.Kind, err)
		}
		if len(items) == MaxItems {
			return nil, fmt.Errorf("elicitation upstream: it lists more than %d %ss", MaxItems, l.Kind)
		}
		name := l.Name(listed)
		own := *name
		switch l.Kind {
		case Tools, Prompts:
			*name = conns.names.Publish(own)
		default:
			*name = conns.names.PublishURI(own)
		}
		text, err := json.Marshal(listed)
		if err != nil {
			return nil, fmt.Errorf("elicitation upstream: %s %q: %w", l.Kind, own, err)
		}
		items = append(items, Item{Name: *name, Text: string(text),
			Add: func() { l.Add(listed, own) }})
	}
	return items, nil
}
