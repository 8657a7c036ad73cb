package upstream_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/upstream"
)

// receipt notes what it is told.
type receipt struct{ told []error }

func (r *receipt) Confirm()       { r.told = append(r.told, nil) }
func (r *receipt) Fail(err error) { r.told = append(r.told, err) }

func TestKeysAreWhatIdsMean(t *testing.T) {
	for _, test := range []struct {
		name, one, other string
		same             bool
	}{
		{"escaped slash", `"a\/b"`, `"a/b"`, true},
		{"escaped letter", `"<"`, `"\u003c"`, true},
		{"spellings of a number", `1`, `1.0`, true},
		{"number and text", `1`, `"1"`, false},
		{"two numbers", `1`, `2`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			one, other := upstream.Key([]byte(test.one)), upstream.Key([]byte(test.other))
			if (one == other) != test.same {
				t.Errorf("the keys of %s and %s are %q and %q", test.one, test.other, one, other)
			}
		})
	}
	for _, id := range []string{"", "null", "{"} {
		if key := upstream.Key([]byte(id)); key != "" {
			t.Errorf("the key of %q is %q, want none", id, key)
		}
	}
}

func TestReceiptsAreToldOnce(t *testing.T) {
	var b upstream.Book
	var good, bad receipt
	lost := errors.New("lost")
	b.Add("call", "1", &good)
	b.Add("call", "2", &bad)
	for range 2 {
		b.Settle("1", nil)
		b.Settle("2", lost)
		b.Settle("3", nil)
	}
	if len(good.told) != 1 || good.told[0] != nil || len(bad.told) != 1 || bad.told[0] != lost {
		t.Errorf("told %v and %v", good.told, bad.told)
	}
}

func TestWaitIsForTheAnswersOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b upstream.Book
		b.Add("call", "1", &receipt{})
		b.Add("other", "2", &receipt{})
		go func() {
			time.Sleep(100 * time.Millisecond)
			b.Settle("1", nil)
		}()
		began := time.Now()
		b.Wait("call")
		if waited := time.Since(began); waited != 100*time.Millisecond {
			t.Errorf("waited %v for one that is settled", waited)
		}
		b.Wait("other")
		if waited := time.Since(began); waited != 1100*time.Millisecond {
			t.Errorf("waited until %v for one that is not", waited)
		}
	})
}

func TestAnIdThatIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b upstream.Book
		var first, second receipt
		b.Add("call", "1", &first)
		b.Add("call", "1", &second)
		b.Settle("1", nil)
		if len(first.told) != 0 || len(second.told) != 1 {
			t.Errorf("told %v and %v", first.told, second.told)
		}
	})
}

func TestNilIsEmpty(t *testing.T) {
	var b *upstream.Book
	b.Add("call", "1", &receipt{})
	b.Settle("1", nil)
	b.Wait("call")
}
