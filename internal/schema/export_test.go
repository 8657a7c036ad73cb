package schema

// Accepts opens the check on raw bytes to tests.
func (s *Schema) Accepts(doc []byte) bool { return s.accepts(doc) }
