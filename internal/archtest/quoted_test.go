package archtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// quoted are files that pages show whole, because tests use them or write them: what is shown was
// tested.
var quoted = []struct{ file, page, block string }{
	{"examples/production/nginx.conf", "server/README.md", "```nginx\n%```\n"},
	{"examples/production/haproxy.cfg", "server/README.md", "```haproxy\n%```\n"},
	{"internal/interop/testdata/replicas.md", "server/README.md", "\n\n%\n"},
	{"internal/interop/testdata/comparison.md", "README.md", "\n\n%\n"},
}

func TestPagesShowTestedFiles(t *testing.T) {
	root := root(t)
	for _, q := range quoted {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(q.file)))
		if err != nil {
			t.Error(err)
			continue
		}
		want := strings.Replace(q.block, "%", string(text), 1)
		if !strings.Contains(readPage(t, q.page), want) {
			t.Errorf("%s does not show %s as it is", q.page, q.file)
		}
	}
}
