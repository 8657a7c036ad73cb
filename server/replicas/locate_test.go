package replicas_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/server/replicas"
)

func TestOnlyDNSLabelsAreNames(t *testing.T) {
	for _, name := range []string{"a", "everything-0", "9", strings.Repeat("x", 63)} {
		if err := replicas.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "-a", "a-", "A", "a.b", "a/b", "a:1", "a@b", "ä", "a b",
		"a%2f", strings.Repeat("x", 64)} {
		if err := replicas.CheckName(name); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

func TestLocateByList(t *testing.T) {
	locate, err := replicas.LocateByList(map[string]string{"a": "http://10.0.0.1:8080/mcp"})
	testkit.NoError(t, err)
	if u, err := locate(t.Context(), "a"); err != nil || u.Host != "10.0.0.1:8080" {
		t.Errorf("got %v, %v", u, err)
	}
	if _, err := locate(t.Context(), "b"); !errors.Is(err, replicas.ErrUnknown) {
		t.Errorf("an unknown name: got %v", err)
	}
	for name, bad := range map[string]map[string]string{
		"capital": {"A": "http://h/mcp"}, "another scheme": {"a": "ftp://h/"},
		"no address": {"a": ""}, "password": {"a": "http://u:p@h/mcp"},
		"path alone": {"a": "/mcp"}, "no name": {"": "http://h/mcp"},
		"empty port": {"a": "http://127.0.0.1:/mcp"}, "no host": {"a": "http://:80/mcp"},
		"port 0": {"a": "http://h:0/mcp"}, "port too large": {"a": "http://[::1]:65536/mcp"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := replicas.LocateByList(bad); err == nil {
				t.Error("it is accepted")
			} else if strings.Contains(err.Error(), "u:p") {
				t.Errorf("the error quotes a password: %v", err)
			}
		})
	}
}

func TestLocateByPattern(t *testing.T) {
	locate, err := replicas.LocateByPattern("http://{name}.mcp.default.svc:8080/mcp")
	testkit.NoError(t, err)
	if u, err := locate(t.Context(), "mcp-0"); err != nil ||
		u.String() != "http://mcp-0.mcp.default.svc:8080/mcp" {
		t.Errorf("got %v, %v", u, err)
	}
	for _, bad := range []string{"", "http://mcp/", "http://h/{name}", "http://{name}.{name}/",
		"{name}://h/", "http://h:8080/?x={name}", "http://{name}@h/"} {
		if _, err := replicas.LocateByPattern(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
