package fields

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// A Member is a struct field that encoding/json encodes as a member.
type Member struct {
	Name    string
	Options []string // of the json tag, such as omitempty
	Owner   reflect.Type
	Field   reflect.StructField
}

// Members returns the members of the struct t, including those of embedded structs, in field order.
// Of two members with the same name it returns the outer one, as encoding/json does.
func Members(t reflect.Type) []Member {
	var list []Member
	var named [][]int // embedded structs that are members
	at := map[string]int{}
	for _, field := range reflect.VisibleFields(t) {
		m, ok := memberOf(t, field)
		inNamed := func(outer []int) bool {
			return len(field.Index) > len(outer) &&
				slices.Equal(field.Index[:len(outer)], outer)
		}
		if !ok || slices.ContainsFunc(named, inNamed) {
			continue
		}
		if field.Anonymous {
			named = append(named, field.Index)
		}
		if i, twice := at[m.Name]; !twice {
			at[m.Name] = len(list)
			list = append(list, m)
		} else if len(field.Index) < len(list[i].Field.Index) {
			list[i] = m
		}
	}
	return list
}

// memberOf reports false for an omitted field, and for an embedded struct that contributes fields.
func memberOf(t reflect.Type, field reflect.StructField) (Member, bool) {
	tag := field.Tag.Get("json")
	name, options, _ := strings.Cut(tag, ",")
	if !field.IsExported() || tag == "-" ||
		field.Anonymous && name == "" && deref(field.Type).Kind() == reflect.Struct {
		return Member{}, false
	}
	m := Member{Name: cmp.Or(name, field.Name), Owner: t, Field: field}
	if options != "" {
		m.Options = strings.Split(options, ",")
	}
	if len(field.Index) > 1 {
		m.Owner = deref(t.FieldByIndex(field.Index[:len(field.Index)-1]).Type)
	}
	return m, true
}

// HasOption reports whether the json tag has that option.
func (m *Member) HasOption(option string) bool { return slices.Contains(m.Options, option) }

// Read reads the member's tags.
func (m *Member) Read() (Tags, error) { return Read(m.Owner, m.Field) }

// CheckType reads the tags of t and of all structs within it. The error is an *[Error].
func CheckType(t reflect.Type) error { return checkType(t, map[reflect.Type]bool{}) }

func checkType(t reflect.Type, seen map[reflect.Type]bool) error {
	t = deref(t)
	if seen[t] {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return checkType(t.Elem(), seen)
	case reflect.Struct:
	default:
		return nil
	}
	for field := range t.Fields() {
		if field.Tag.Get("json") == "-" || !field.IsExported() && !field.Anonymous {
			continue
		}
		err := error(nil)
		if _, ok := memberOf(t, field); ok {
			_, err = Read(t, field)
		} else {
			err = Refuse(t, field)
		}
		if err == nil {
			err = checkType(field.Type, seen)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
