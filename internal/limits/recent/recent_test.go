package recent_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
)

func wantValue(t *testing.T, m *recent.Map[string, int], key string, want int) {
	t.Helper()
	got, ok := m.Get(key)
	if got != want || ok != (want != 0) {
		t.Errorf("Get(%q) = %d, %v; want %d", key, got, ok, want)
	}
}

func TestPutReplacesAndDeleteForgets(t *testing.T) {
	m := recent.New[string, int](2, 0)
	wantValue(t, m, "a", 0)
	m.Put("a", 1)
	m.Put("a", 2)
	wantValue(t, m, "a", 2)
	if n := m.Len(); n != 1 {
		t.Errorf("%d values after the key was put twice, want 1", n)
	}
	m.Delete("b")
	m.Delete("a")
	m.Delete("a")
	wantValue(t, m, "a", 0)
	if n := m.Len(); n != 0 {
		t.Errorf("%d values after the only one was deleted, want 0", n)
	}
}

func TestFullMapEvictsTheValueThatWasPutLongestAgo(t *testing.T) {
	m := recent.New[string, int](3, 0)
	for i, key := range []string{"a", "b", "c"} {
		m.Put(key, i+1)
	}
	m.Put("a", 10) // is the newest now
	if oldest, ok := m.Oldest(); oldest != 2 || !ok || !m.Full() {
		t.Errorf("Oldest() = %d, %v, Full() = %v; want 2 of a full map", oldest, ok, m.Full())
	}
	m.Put("d", 4)
	wantValue(t, m, "a", 10)
	wantValue(t, m, "b", 0)
	wantValue(t, m, "c", 3)
	wantValue(t, m, "d", 4)
	m.Delete("c")
	m.Put("e", 5) // takes the room of c
	wantValue(t, m, "a", 10)
	if n := m.Len(); n != 3 {
		t.Errorf("%d values, want 3", n)
	}
}

func TestValuesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := recent.New[string, int](2, time.Minute)
		m.Put("a", 1)
		time.Sleep(time.Minute - 1)
		wantValue(t, m, "a", 1) // Get does not make it younger
		m.Put("b", 2)
		time.Sleep(time.Nanosecond)
		wantValue(t, m, "a", 0)
		wantValue(t, m, "b", 2)
		if n := m.Len(); n != 1 {
			t.Errorf("%d values after one has expired, want 1", n)
		}
		m.Put("b", 3) // restarts its time
		time.Sleep(time.Minute - 1)
		wantValue(t, m, "b", 3)
	})
}

func TestAllAllowsDeletingTheCurrentValue(t *testing.T) {
	m := recent.New[string, int](3, 0)
	m.Put("a", 1)
	m.Put("b", 2)
	sum := 0
	for key, value := range m.All() {
		sum += value
		m.Delete(key)
	}
	if sum != 3 || m.Len() != 0 {
		t.Errorf("All gave a sum of %d and left %d values, want 3 and none", sum, m.Len())
	}
}

func TestNilMapIsEmpty(t *testing.T) {
	var m *recent.Map[string, int]
	wantValue(t, m, "a", 0)
	m.Delete("a")
	for range m.All() {
		t.Error("a nil map has a value")
	}
	if _, ok := m.Oldest(); ok || m.Len() != 0 {
		t.Error("a nil map is not empty")
	}
}
