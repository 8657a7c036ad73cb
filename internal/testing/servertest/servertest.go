// Package servertest is shared by tests of servers: endpoints, replicas behind a balancer, pipes,
// processes, and checks of options structs.
package servertest

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// NewHandler returns the endpoint of srv. opts may be nil.
func NewHandler(t testing.TB, srv *server.Server, opts *serverhttp.Options) *serverhttp.Handler {
	t.Helper()
	h, err := serverhttp.New(srv, opts)
	noError(t, err)
	return h
}

// numberFields returns an options struct's number and duration fields, such as "Limits.Name".
func numberFields(options reflect.Type, prefix string) (names []string) {
	for field := range options.Fields() {
		switch field.Type {
		case reflect.TypeFor[int](), reflect.TypeFor[int64](), reflect.TypeFor[time.Duration]():
			if field.IsExported() {
				names = append(names, prefix+field.Name)
			}
		}
		if field.Name == "Limits" {
			names = append(names, numberFields(field.Type, "Limits.")...)
		}
	}
	return names
}

// CheckNumberFields checks that refused has a key for each number field of the options struct T,
// and that build accepts 0 and negative values. If refused is true for a field, build must refuse
// its negative values with an error that names the field.
func CheckNumberFields[T any](t *testing.T, refused map[string]bool, build func(*T) error) {
	names := numberFields(reflect.TypeFor[T](), "")
	if len(names) != len(refused) {
		t.Errorf("%T has the numbers %v, the table %d", *new(T), names, len(refused))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			refuses, ok := refused[name]
			if !ok {
				t.Fatal("is not in the table: say what a negative one means")
			}
			opts := new(T)
			if err := build(opts); err != nil {
				t.Errorf("0: %v", err)
			}
			field := reflect.ValueOf(opts).Elem()
			for _, part := range strings.Split(name, ".") {
				field = field.FieldByName(part)
			}
			field.SetInt(-int64(time.Second))
			err := build(opts)
			if refuses != (err != nil) ||
				err != nil && !regexp.MustCompile(name+"[: ]").MatchString(err.Error()) {
				t.Errorf("negative: got %v, want an error that names it: %v", err, refuses)
			}
		})
	}
}

var noError = testkit.NoError
