package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const billTool = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"

// The variable accepted has the licences compatible with Apache-2.0, all permissive. The tool takes
// the BSD-3-Clause of golang.org/x for BSD-Source-Code.
var accepted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-Source-Code",
	"ISC", "MIT"}

// readByHand maps a module and the tool's wrong licence to the licence in the module's LICENSE.
var readByHand = map[string]string{
	"github.com/modelcontextprotocol/go-sdk CC-BY-4.0": "Apache-2.0", // CC-BY-4.0 is for the documentation
}

// writeBills writes each module's software bill of materials (CycloneDX) into a folder, and prints
// the licences. A dependency whose licence is not accepted is an error.
func (r *release) writeBills(to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	var lines []string
	var refused []error
	for _, folder := range r.folders {
		name := strings.ReplaceAll(path.Join("rondo", folder), "/", "-") + ".cdx.json"
		name = filepath.Join(to, name)
		_, err := execute(filepath.Join(r.top, folder), "go", "run", billTool, "mod",
			"-json", "-licenses", "-noserial", "-notimestamp", "-type", "library", "-output", name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		found, err := readLicences(text)
		lines, refused = append(lines, found...), append(refused, err)
	}
	slices.Sort(lines)
	fmt.Println(strings.Join(slices.Compact(lines), "\n"))
	return errors.Join(refused...)
}

// readLicences returns the dependencies with their licences, and an error for unaccepted licences.
func readLicences(bill []byte) (lines []string, err error) {
	var b struct {
		Components []struct {
			Name, Version string
			Evidence      struct {
				Licenses []struct{ License struct{ ID string } }
			}
		}
	}
	if err := json.Unmarshal(bill, &b); err != nil {
		return nil, err
	}
	var refused []error
	for _, c := range b.Components {
		if strings.HasPrefix(c.Name+"/", rootModule+"/") {
			continue
		}
		licence := "unknown"
		if found := c.Evidence.Licenses; len(found) == 1 {
			licence = found[0].License.ID
		}
		if read, ok := readByHand[c.Name+" "+licence]; ok {
			licence = read
		}
		lines = append(lines, fmt.Sprintf("%-16s %s %s", licence, c.Name, c.Version))
		if !slices.Contains(accepted, licence) {
			refused = append(refused, fmt.Errorf("%s %s has licence %s: read its LICENSE and say "+
				"in internal/release/bills.go what it is", c.Name, c.Version, licence))
		}
	}
	return lines, errors.Join(refused...)
}
