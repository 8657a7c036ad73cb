package archtest_test

import (
	"bytes"
	"go/ast"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var sizeRow = regexp.MustCompile(`(?m)^\| size: ([a-z ]+) \| ([\d,]+) \|$`)

// TestSizeGrowsOnPurpose fails if a size exceeds the page's by more than 1 %, so that growth is
// decided and the page changed by hand. It also fails if a size has shrunk by 5 %.
func TestSizeGrowsOnPurpose(t *testing.T) {
	sizes := measureSizes(t)
	rows := sizeRow.FindAllStringSubmatch(readPage(t, housePage), -1)
	if len(rows) != len(sizes) {
		t.Errorf("%s has %d sizes, want %d", housePage, len(rows), len(sizes))
	}
	for _, row := range rows {
		told, err := strconv.Atoi(strings.ReplaceAll(row[2], ",", ""))
		size, ok := sizes[row[1]]
		switch {
		case err != nil, !ok:
			t.Errorf("%s: cannot read %q", housePage, row[0])
		case size*100 > told*101:
			t.Errorf("%d %s, and %s allows %d and a hundredth", size, row[1], housePage, told)
		case size*20 < told*19:
			t.Errorf("%d %s: say so in %s, which has %d", size, row[1], housePage, told)
		}
	}
}

// measureSizes returns the sizes on the page. Names and options belong to packages for users.
func measureSizes(t *testing.T) map[string]int {
	t.Helper()
	sizes := make(map[string]int)
	packages := make(map[string]bool)
	for _, file := range written(t) {
		if path.Base(file) == "go.mod" {
			sizes["modules"]++
		}
	}
	eachGoFile(t, func(file string, src []byte, f *ast.File) {
		lines := bytes.Count(src, []byte("\n"))
		if strings.HasSuffix(file, "_test.go") {
			sizes["lines of tests"] += lines
			return
		}
		sizes["lines of code"] += lines
		dir := path.Dir(file)
		if f.Name.Name == "main" || strings.HasPrefix(dir, "examples") {
			return
		}
		packages[dir] = true
		if !strings.Contains("/"+dir+"/", "/internal/") {
			names, options := countExported(f)
			sizes["exported names"] += names
			sizes["option fields"] += options
		}
	})
	sizes["packages"] = len(packages)
	return sizes
}

// countExported counts exported declarations except methods, and fields of Options structs.
func countExported(f *ast.File) (names, options int) {
	count := func(name *ast.Ident) {
		if name.IsExported() {
			names++
		}
	}
	for _, decl := range f.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
			count(f.Name)
		}
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					count(name)
				}
			case *ast.TypeSpec:
				count(spec.Name)
				fields, ok := spec.Type.(*ast.StructType)
				if !ok || !strings.HasSuffix(spec.Name.Name, "Options") {
					continue
				}
				for _, field := range fields.Fields.List {
					for _, name := range field.Names {
						if name.IsExported() {
							options++
						}
					}
				}
			}
		}
	}
	return names, options
}
