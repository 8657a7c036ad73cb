package server

import (
	"reflect"

	"github.com/rondo-mcp/rondo/internal/forms/fields"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// The type defaults has values of absent members, from a struct's tags default. It is immutable.
type defaults struct {
	members []defaultMember
	inside  map[string]*defaults // of members that are objects or lists of them
	values  *defaults            // of a map's values
	items   *defaults
}

type defaultMember struct {
	name string
	raw  []byte
}

// defaultsOf returns the defaults of t, nil if there are none. Tags must have been checked.
func defaultsOf(t reflect.Type) *defaults {
	b := defaultsBuilder{types: map[reflect.Type]*defaults{}}
	root := b.buildDefaults(t)
	if !b.found {
		return nil
	}
	return root
}

// A defaultsBuilder remembers visited types, which may contain themselves.
type defaultsBuilder struct {
	types map[reflect.Type]*defaults
	found bool
}

func (b *defaultsBuilder) buildDefaults(t reflect.Type) *defaults {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if d, ok := b.types[t]; ok {
		return d
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
	default:
		return nil
	}
	d := &defaults{}
	b.types[t] = d
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		d.items = b.buildDefaults(t.Elem())
	case reflect.Map:
		d.values = b.buildDefaults(t.Elem())
	case reflect.Struct:
		d.inside = map[string]*defaults{}
		for _, member := range fields.Members(t) {
			if tags, err := member.Read(); err == nil && tags.Default != nil {
				d.members = append(d.members, defaultMember{member.Name, tags.Default})
				b.found = true
			}
			if inside := b.buildDefaults(member.Field.Type); inside != nil {
				d.inside[member.Name] = inside
			}
		}
	}
	return d
}

// fillAbsent adds the defaults of absent members to valid arguments; absent objects stay absent.
func (d *defaults) fillAbsent(arguments []byte) []byte {
	if d == nil {
		return arguments
	}
	return d.appendFilled(make([]byte, 0, len(arguments)+64), arguments)
}

func (d *defaults) appendFilled(dst, raw []byte) []byte {
	switch {
	case d == nil:
		return append(dst, raw...)
	case jsonx.KindOf(raw) == jsonx.Object:
		return d.appendObject(dst, raw)
	case jsonx.KindOf(raw) == jsonx.Array && d.items != nil:
		dst = append(dst, '[')
		_ = jsonx.Elements(raw, func(i int, value []byte) error {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = d.items.appendFilled(dst, value)
			return nil
		})
		return append(dst, ']')
	}
	return append(dst, raw...)
}

func (d *defaults) appendObject(dst, raw []byte) []byte {
	sent := make(map[string]bool, len(d.members))
	empty := true
	begin := func(name []byte) {
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		dst = append(jsonx.AppendTextBytes(dst, name), ':')
	}
	dst = append(dst, '{')
	_ = jsonx.Members(raw, func(name, value []byte) error {
		sent[string(name)] = true
		begin(name)
		inside := d.values
		if d.inside != nil {
			inside = d.inside[string(name)]
		}
		dst = inside.appendFilled(dst, value)
		return nil
	})
	for _, m := range d.members {
		if !sent[m.name] {
			begin([]byte(m.name))
			dst = append(dst, m.raw...)
		}
	}
	return append(dst, '}')
}
