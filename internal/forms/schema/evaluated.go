package schema

// evaluated is what of an object or array some subschema was applied to, for unevaluatedProperties
// and unevaluatedItems. A nil one keeps nothing, because nobody asks.
type evaluated struct {
	names    map[string]struct{}
	items    map[int]struct{}
	first    int // so many items from the beginning on
	allNames bool
	allItems bool
}

// newBranch returns an empty one for a branch that may not count, nil if nobody asks.
func (e *evaluated) newBranch() *evaluated {
	if e == nil {
		return nil
	}
	return &evaluated{}
}

func (e *evaluated) addName(name string) {
	if e == nil || e.allNames {
		return
	}
	if e.names == nil {
		e.names = map[string]struct{}{}
	}
	e.names[name] = struct{}{}
}

func (e *evaluated) addItem(i int) {
	if e == nil || e.hasItem(i) {
		return
	}
	if e.items == nil {
		e.items = map[int]struct{}{}
	}
	e.items[i] = struct{}{}
}

// addItems adds the first n items, or all.
func (e *evaluated) addItems(n int, all bool) {
	if e != nil {
		e.first, e.allItems = max(e.first, n), e.allItems || all
	}
}

func (e *evaluated) hasName(name string) bool {
	_, ok := e.names[name]
	return ok || e.allNames
}

func (e *evaluated) hasItem(i int) bool {
	_, ok := e.items[i]
	return ok || e.allItems || i < e.first
}

// mergeBranch adds what other has.
func (e *evaluated) mergeBranch(other *evaluated) {
	if e == nil || other == nil {
		return
	}
	e.addItems(other.first, other.allItems)
	for i := range other.items {
		e.addItem(i)
	}
	e.allNames = e.allNames || other.allNames
	for name := range other.names {
		e.addName(name)
	}
}
