package archtest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// notAboutPeople lists the exported times that nobody who is asked something can run into, and
// why. All others stand in the table of the documentation of package roundtrip.
var notAboutPeople = map[string]string{
	"client.CommandOptions.Grace":          "the exit of a child process",
	"client.Options.MaxPause":              "the pause before a retry when nothing was asked",
	"client.Options.MinPause":              "the pause before a retry when nothing was asked",
	"client.StreamOptions.ProbeTimeout":    "the start of a server",
	"bearer.Options.Leeway":                "the difference of two clocks",
	"elicitation.QuestionStore.Put":        "given by the router",
	"redisstore.QuestionStore.Put":         "given by the router",
	"elicitation.Options.RetryAfter":       "what a refused upstream is told",
	"elicitation.Options.SweepInterval":    "a report about hosts",
	"gosdk.UpstreamOptions.IdleTimeout":    "the end of a connection that no call uses",
	"mcpgo.UpstreamOptions.IdleTimeout":    "the end of a connection that no call uses",
	"event.Fields.AddMilliseconds":         "a field of a log entry",
	"middleware.ProductionOptions.Timeout": "is that of middleware.Timeout",
	"roundtrip.CleanupTime":                "work after the end of a handler",
	"server.Call.CloseStream":              "the pause before a client comes back for a stream",
	"server.Options.ListTTL":               "the reuse of results",
	"server.StreamOptions.Grace":           "work after the end of the input: nobody can answer then",
}

// clocksWithoutSetting names the constants behind the rows of the table that no option sets.
var clocksWithoutSetting = map[string]string{
	"idle sessions at a limit of serverhttp":               "serverhttp.minEvictIdle",
	"events of a finished stream":                          "serverhttp.eventLife",
	"a visit that the router remembers":                    "elicitation.urlTTL",
	"reaching the store of questions":                      "elicitation.storeTotalTime",
	"an answer to a server of an older revision over HTTP": "clienthttp.answerLimit",
	"the wait that a busy server asks for":                 "client.maxRetryAfter",
}

// TestEveryClockOfPeopleIsListed wants each exported duration that is an option, a parameter or
// a constant in the table of clocks, or in the list above.
func TestEveryClockOfPeopleIsListed(t *testing.T) {
	listed := clockTable(t)
	found, constants := exportedDurations(t, root(t))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		_, inTable := listed[name]
		_, excepted := notAboutPeople[name]
		switch {
		case inTable && excepted:
			t.Errorf("%s is in the table of clocks and in the list of what does not belong there",
				name)
		case !inTable && !excepted:
			t.Errorf("%s is not in the table of clocks in roundtrip/doc.go", name)
		case inTable:
			checkDefault(t, name, listed[name], found[name])
		}
	}
	ours := regexp.MustCompile(`^(client|elicitation|middleware|roundtrip|serverhttp)\.`)
	for name := range listed {
		if _, ok := found[name]; !ok && ours.MatchString(name) {
			t.Errorf("the table of clocks in roundtrip/doc.go names %s, which does not exist", name)
		}
	}
	for row, constant := range clocksWithoutSetting {
		if constants[constant] == 0 || listed[row] == "" {
			t.Errorf("row %q and constant %s: one of them does not exist", row, constant)
			continue
		}
		checkDefault(t, row, listed[row], constants[constant])
	}
	for name := range notAboutPeople {
		if _, ok := found[name]; !ok {
			t.Errorf("%s is in the list of exceptions and does not exist", name)
		}
	}
}

// checkDefault compares the default that the table names with the constant, where there is one.
func checkDefault(t *testing.T, name, listed string, actual time.Duration) {
	t.Helper()
	if actual == 0 {
		return
	}
	text := strings.NewReplacer(" ", "", "min", "m").Replace(listed)
	if d, err := time.ParseDuration(text); err != nil || d != actual {
		t.Errorf("the table of clocks says %q of %s, the constant is %v", listed, name, actual)
	}
}

// clockRow is the first line of an entry: what it is called, and its default.
var clockRow = regexp.MustCompile(`^//\t(\S.*?) +(-|\d+ (?:ms|s|min|h))$`)

// clockTable returns the defaults in the table of clocks by name.
func clockTable(t *testing.T) map[string]string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root(t), "roundtrip", "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(source), "\n// # Clocks")
	if !ok {
		t.Fatal("roundtrip/doc.go has no table of clocks")
	}
	text, _, _ = strings.Cut(text, "\n// # ")
	rows := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := clockRow.FindStringSubmatch(line); m != nil {
			rows[m[1]] = m[2]
		} else if strings.HasPrefix(line, "//\t") && !strings.HasPrefix(line, "//\t\t") {
			t.Errorf("this line of the table of clocks has no default: %s", line)
		}
	}
	return rows
}

// exportedDurations returns the exported durations of the modules under dir and their defaults,
// 0 where none is known: fields of structs named …Options, parameters of functions and methods,
// and constants. A constant whose name begins with default is the default of the field, or of
// the function, that is named by the rest. constants has all of them, unexported ones too.
func exportedDurations(t *testing.T, dir string) (found, constants map[string]time.Duration) {
	t.Helper()
	found, constants = map[string]time.Duration{}, map[string]time.Duration{}
	for _, file := range publicFiles(t, dir) {
		pkg := file.Name.Name
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				name := funcName(d)
				if ast.IsExported(name) && d.Name.IsExported() && hasDuration(d.Type.Params) {
					found[pkg+"."+name] = 0
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					addDurations(pkg, spec, found, constants)
				}
			}
		}
	}
	for name, value := range constants {
		pkg, of, isDefault := strings.Cut(strings.Replace(name, ".default", ".Default", 1),
			".Default")
		if !isDefault {
			continue
		}
		isOwner := func(owner string) bool { _, ok := found[owner]; return ok }
		owners := []string{
			pkg + ".Options." + of, pkg + ".LimitOptions." + of, pkg + ".StreamOptions." + of,
			pkg + "." + of,
		}
		if i := slices.IndexFunc(owners, isOwner); i >= 0 {
			found[owners[i]] = value
		} else if strings.Contains(name, ".Default") {
			found[name] = value // it needs an entry of its own
		}
	}
	return found, constants
}

// addDurations adds the durations of one type or constant.
func addDurations(pkg string, spec ast.Spec, found, constants map[string]time.Duration) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		switch typ := s.Type.(type) {
		case *ast.StructType:
			for _, field := range typ.Fields.List {
				for _, name := range field.Names {
					if s.Name.IsExported() && strings.HasSuffix(s.Name.Name, "Options") &&
						name.IsExported() && isDuration(field.Type) {
						found[pkg+"."+s.Name.Name+"."+name.Name] = 0
					}
				}
			}
		case *ast.InterfaceType:
			for _, method := range typ.Methods.List {
				f, ok := method.Type.(*ast.FuncType)
				if ok && s.Name.IsExported() && hasDuration(f.Params) {
					found[pkg+"."+s.Name.Name+"."+method.Names[0].Name] = 0
				}
			}
		}
	case *ast.ValueSpec:
		for i, name := range s.Names {
			if i >= len(s.Values) {
				continue
			}
			value, ok := durationOf(s.Values[i])
			if !ok {
				continue
			}
			constants[pkg+"."+name.Name] = value
			if name.IsExported() && !strings.HasPrefix(name.Name, "Default") {
				found[pkg+"."+name.Name] = value
			}
		}
	}
}

func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	return fmt.Sprint(typ) + "." + d.Name.Name
}

func hasDuration(params *ast.FieldList) bool {
	return slices.ContainsFunc(params.List, func(f *ast.Field) bool { return isDuration(f.Type) })
}

func isDuration(typ ast.Expr) bool {
	s, ok := typ.(*ast.SelectorExpr)
	return ok && fmt.Sprint(s.X) == "time" && s.Sel.Name == "Duration"
}

// durationOf evaluates constants such as 10 * time.Minute. It reports false for anything that
// does not name a unit of package time.
func durationOf(e ast.Expr) (time.Duration, bool) {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		units := map[string]time.Duration{
			"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute,
			"Hour": time.Hour,
		}
		d, ok := units[e.Sel.Name]
		return d, ok && fmt.Sprint(e.X) == "time"
	case *ast.BinaryExpr:
		factor, ok := e.X.(*ast.BasicLit)
		unit, isUnit := durationOf(e.Y)
		if !isUnit {
			return 0, false
		}
		if ok && e.Op == token.MUL {
			n, err := strconv.Atoi(factor.Value)
			return time.Duration(n) * unit, err == nil
		}
		return 0, true // a sum with another constant
	}
	return 0, false
}

// publicFiles parses the sources of all packages that others can import, those of the modules
// inside included, without tests and commands.
func publicFiles(t *testing.T, dir string) []*ast.File {
	t.Helper()
	var files []*ast.File
	fset := token.NewFileSet()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			switch name {
			case "internal", "examples", "testdata", "roundtriptest":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err == nil {
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
