package urlrule_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

// An upstream may name its visits like the generated keys.
func TestGrowthOfRequiredVisits(t *testing.T) {
	visits := func(last string) func(int) []byte {
		return func(size int) []byte {
			unnamed, named := `{"mode":"url","message":"m","url":"https://a.example"},`, `{"mode":"url","message":"m","url":"https://a.example","elicitationId":"url-elicitation-%"},`
			n := size / (len(unnamed) + len(named) + 4)
			var b strings.Builder
			b.WriteString(`{"elicitations":[` + strings.Repeat(unnamed, n))
			for i := range n {
				b.WriteString(strings.Replace(named, "%", strconv.Itoa(i+1), 1))
			}
			return []byte(b.String() + `{"mode":"url","message":"m","elicitationId":"last","url":"` + last + `"}]}`)
		}
	}
	testkit.CheckGrowth(t, testkit.GrowthReader{
		Read: func(input []byte) bool {
			return urlrule.Hook(nil).RefuseRequired(&protocol.Error{
				Code: protocol.CodeURLElicitationRequired, Data: input}) == nil
		},
		BytesPerByte: 16, ObjectsPerByte: 0.3,
	},
		testkit.GrowthInput{Name: "allowed", Make: visits("https://b.example")},
		testkit.GrowthInput{Name: "last not allowed", Make: visits("file:///etc"), Refused: true},
	)
}
