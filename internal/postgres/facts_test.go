package postgres

import "testing"

func TestFactsStayTrueAsTheyGrow(t *testing.T) {
	t.Parallel()
	var f facts[int, int]
	for round := range 2 {
		for k := range 3 * fewFacts {
			if _, known := f.get(k); known != (round > 0) {
				t.Errorf("round %d: fact %d is known: %v", round, k, known)
			}
			f.learn(k, k+round)
			for j := range k + 1 {
				if v, known := f.get(j); !known || v != j+round {
					t.Fatalf("round %d, %d learned: fact %d = %d, %v", round, k+1, j, v, known)
				}
			}
		}
	}
}
