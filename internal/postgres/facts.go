package postgres

// facts are a small map: most updates learn one of each, so the first few are kept in a slice.
type facts[K comparable, V any] struct {
	few  []fact[K, V]
	many map[K]V
}

type fact[K comparable, V any] struct {
	key   K
	value V
}

// fewFacts is how many are searched one by one.
const fewFacts = 8

// learn sets a fact.
func (f *facts[K, V]) learn(k K, v V) {
	if f.many != nil {
		f.many[k] = v
		return
	}
	for i := range f.few {
		if f.few[i].key == k {
			f.few[i].value = v
			return
		}
	}
	if f.few = append(f.few, fact[K, V]{k, v}); len(f.few) > fewFacts {
		f.many = map[K]V{}
		for _, e := range f.few {
			f.many[e.key] = e.value
		}
		f.few = nil
	}
}

// get returns the fact of k; known tells whether there is one.
func (f *facts[K, V]) get(k K) (v V, known bool) {
	if f.many != nil {
		v, known = f.many[k]
		return v, known
	}
	for i := range f.few {
		if f.few[i].key == k {
			return f.few[i].value, true
		}
	}
	return v, false
}
