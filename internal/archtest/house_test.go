package archtest_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/doc"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	housePage  = "internal/design/README.md"
	houseStart = "<!-- house:start -->\n"
	houseEnd   = "<!-- house:end -->\n"
)

// houseGroups are the page's headings and their folders. The longest matching folder wins.
var houseGroups = []struct {
	heading string
	folders []string
}{
	{"For everybody", []string{"."}},
	{"Messages", []string{"protocol"}},
	{"Asking", []string{"roundtrip"}},
	{"Servers", []string{"server"}},
	{"Clients", []string{"client"}},
	{"Gateways", []string{"elicitation"}},
	{"Bytes and messages", []string{"internal/wire"}},
	{"Forms and schemas", []string{"internal/forms"}},
	{"State that clients carry", []string{"internal/state"}},
	{"Limits", []string{"internal/limits"}},
	{"Replicas", []string{"internal/fleet"}},
	{"What adapters, logs and errors share", []string{"internal"}},
	{"Tests and their kits", []string{"internal/testing", "internal/archtest",
		"internal/conformance", "internal/interop", "internal/sqltest",
		"internal/release"}},
	{"Benchmarks", []string{"internal/benchmarks"}},
	{"Examples", []string{"examples"}},
}

// houseRow is a package in the table. Line counts are compared roughly.
var houseRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\d+) \\| (.*) \\|$")

// TestHouseIsComplete compares the page of all packages with the packages. -update rewrites it.
func TestHouseIsComplete(t *testing.T) {
	page := readPage(t, housePage)
	before, rest, ok := strings.Cut(page, houseStart)
	told, after, ok2 := strings.Cut(rest, houseEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q and %q", housePage, houseStart, houseEnd)
	}
	want := houseTable(t)
	if flag.Lookup("update").Value.String() == "true" {
		text := before + houseStart + want + houseEnd + after
		err := os.WriteFile(filepath.Join(root(t), housePage), []byte(text), 0o666)
		noError(t, err)
		return
	}
	withoutLines := func(s string) string { return houseRow.ReplaceAllString(s, "| $1 | | $3 |") }
	if withoutLines(told) != withoutLines(want) {
		t.Errorf("%s does not list the packages as they are; run this test with -update",
			housePage)
	}
	lines := make(map[string]int)
	for _, row := range houseRow.FindAllStringSubmatch(want, -1) {
		lines[row[1]], _ = strconv.Atoi(row[2])
	}
	for _, row := range houseRow.FindAllStringSubmatch(told, -1) {
		n, _ := strconv.Atoi(row[2])
		if off := n - lines[row[1]]; max(off, -off) > 50+n/5 {
			t.Errorf("%s gives %s %d lines, it has %d; run this test with -update", housePage,
				row[1], n, lines[row[1]])
		}
	}
}

func houseTable(t *testing.T) string {
	packages := listAllModules(t)
	slices.SortFunc(packages, func(a, b pkg) int {
		return strings.Compare(a.ImportPath, b.ImportPath)
	})
	rows := make(map[string]string) // by heading
	for _, p := range packages {
		if name, ok := rel(p.ImportPath); ok && len(p.GoFiles) > 0 {
			rows[houseHeading(name)] += fmt.Sprintf("| `%s` | %d | %s |\n", name, countLines(t, p),
				shortSynopsis(p))
		}
	}
	var table strings.Builder
	for _, g := range houseGroups {
		fmt.Fprintf(&table, "\n**%s**\n\n| package | lines | |\n|---|---:|---|\n%s", g.heading,
			rows[g.heading])
	}
	return table.String() + "\n"
}

func houseHeading(name string) string {
	heading, longest := houseGroups[0].heading, 0
	for _, g := range houseGroups {
		for _, folder := range g.folders {
			if (name == folder || strings.HasPrefix(name, folder+"/")) && len(folder) > longest {
				heading, longest = g.heading, len(folder)
			}
		}
	}
	return heading
}

// shortSynopsis returns the beginning of a package's documentation, up to the first colon.
func shortSynopsis(p pkg) string {
	text := new(doc.Package).Synopsis(p.Doc)
	text = strings.TrimPrefix(text, "Package "+p.Name+" ")
	if name, rest, ok := strings.Cut(text, ": "); ok && !strings.Contains(name, " ") {
		text = rest // of a command
	}
	text, _, _ = strings.Cut(text, ": ")
	return strings.NewReplacer("[", "", "]", "", "|", "\\|").Replace(strings.TrimSuffix(text, "."))
}

// countLines counts a package's lines without tests.
func countLines(t *testing.T, p pkg) (n int) {
	for _, file := range p.files() {
		text, err := os.ReadFile(file)
		noError(t, err)
		n += bytes.Count(text, []byte("\n"))
	}
	return n
}
