package archtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// quoted are files that the README shows whole, because tests use them: what is shown was tested.
var quoted = map[string]string{
	"internal/interop/testdata/nginx.conf":  "```nginx\n%```\n",
	"internal/interop/testdata/haproxy.cfg": "```haproxy\n%```\n",
	"internal/interop/testdata/replicas.md": "\n\n%\n",
}

func TestREADMEShowsTestedFiles(t *testing.T) {
	root := moduleRoot(t)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range quoted {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			continue
		}
		want := strings.Replace(block, "%", string(text), 1)
		if !strings.Contains(string(readme), want) {
			t.Errorf("README.md does not show %s as it is", name)
		}
	}
}
