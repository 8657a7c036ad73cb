package archtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// quoted are files that server/README.md shows whole, because tests use them: what is shown was
// tested.
var quoted = map[string]string{
	"examples/production/nginx.conf":        "```nginx\n%```\n",
	"examples/production/haproxy.cfg":       "```haproxy\n%```\n",
	"internal/interop/testdata/replicas.md": "\n\n%\n",
}

func TestPagesShowTestedFiles(t *testing.T) {
	root := root(t)
	page := readPage(t, "server/README.md")
	for name, block := range quoted {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			continue
		}
		want := strings.Replace(block, "%", string(text), 1)
		if !strings.Contains(page, want) {
			t.Errorf("server/README.md does not show %s as it is", name)
		}
	}
}
