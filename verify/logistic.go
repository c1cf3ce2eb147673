package verify

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Logistic is a logistic model over named features, each first brought to mean 0 and deviation 1. It is stored as JSON.
type Logistic struct {
	Features []string  `json:"features"`
	Mean     []float64 `json:"mean"`
	Scale    []float64 `json:"scale"`
	Weights  []float64 `json:"weights"`
	Bias     float64   `json:"bias"`
}

// Values are the named numbers of a struct of numbers, by the names that its JSON has.
func Values(v any) map[string]float64 {
	text, err := json.Marshal(v)
	values := map[string]float64{}
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	if err != nil {
		panic(fmt.Sprintf("verify: %T is no struct of numbers: %v", v, err)) // a bug of the caller
	}
	return values
}

// clampScaled bounds how far one feature can carry a decision: what lies farther out than anything that was fitted says no more.
const clampScaled = 4

// row brings values to the scale of the model.
func (m *Logistic) row(values map[string]float64) []float64 {
	x := make([]float64, len(m.Features))
	for i, name := range m.Features {
		v := (values[name] - m.Mean[i]) / m.Scale[i]
		if math.IsNaN(v) {
			v = 0
		}
		x[i] = max(-clampScaled, min(clampScaled, v))
	}
	return x
}

// Probability is the model's answer for values; a feature that is missing counts as 0.
func (m *Logistic) Probability(values map[string]float64) float64 {
	z := m.Bias
	for i, x := range m.row(values) {
		z += m.Weights[i] * x
	}
	return sigmoid(z)
}

// Check says whether the model is well formed.
func (m *Logistic) Check() error {
	n := len(m.Features)
	if len(m.Mean) != n || len(m.Scale) != n || len(m.Weights) != n {
		return fmt.Errorf("verify: a logistic model has %d features, %d means, %d scales and %d weights", n, len(m.Mean), len(m.Scale), len(m.Weights))
	}
	if slices.Contains(m.Scale, 0) {
		return fmt.Errorf("verify: a logistic model has a scale of 0")
	}
	return nil
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// Example is one labelled row of a fit. Weight 0 counts as 1.
type Example struct {
	Values map[string]float64
	True   bool
	Weight float64
}

const (
	fitSteps  = 60
	fitEnough = 1e-9
)

// Fit returns the logistic model of features that maximises the likelihood of examples less ridge/2 times the squared weights (the bias is free),
// by Newton's method. Examples are weighed so that both classes count the same when balanced is set.
func Fit(features []string, examples []Example, ridge float64, balanced bool) (*Logistic, error) {
	trues := 0
	for _, e := range examples {
		if e.True {
			trues++
		}
	}
	if trues == 0 || trues == len(examples) {
		return nil, fmt.Errorf("verify: fit: %d of %d examples are true; both kinds are needed", trues, len(examples))
	}
	m := &Logistic{Features: features, Weights: make([]float64, len(features))}
	m.standardise(examples)
	rows, weights := make([][]float64, len(examples)), make([]float64, len(examples))
	for i, e := range examples {
		rows[i], weights[i] = append(m.row(e.Values), 1), max(e.Weight, 0)
		if e.Weight == 0 {
			weights[i] = 1
		}
		switch {
		case balanced && e.True:
			weights[i] *= float64(len(examples)) / float64(2*trues)
		case balanced:
			weights[i] *= float64(len(examples)) / float64(2*(len(examples)-trues))
		}
	}
	theta := newton(rows, weights, examples, ridge)
	copy(m.Weights, theta)
	m.Bias = theta[len(features)]
	return m, nil
}

// standardise measures mean and deviation of each feature.
func (m *Logistic) standardise(examples []Example) {
	m.Mean, m.Scale = make([]float64, len(m.Features)), make([]float64, len(m.Features))
	n := float64(len(examples))
	for i, name := range m.Features {
		for _, e := range examples {
			m.Mean[i] += e.Values[name] / n
		}
		var variance float64
		for _, e := range examples {
			variance += (e.Values[name] - m.Mean[i]) * (e.Values[name] - m.Mean[i]) / n
		}
		if m.Scale[i] = math.Sqrt(variance); m.Scale[i] < 1e-12 {
			m.Scale[i] = 1
		}
	}
}

func newton(rows [][]float64, weights []float64, examples []Example, ridge float64) []float64 {
	n := len(rows[0])
	theta := make([]float64, n)
	for range fitSteps {
		gradient, hessian := make([]float64, n), make([][]float64, n)
		for i := range hessian {
			hessian[i] = make([]float64, n)
			if i < n-1 { // the bias is not drawn to 0
				gradient[i] = -ridge * theta[i]
				hessian[i][i] = ridge
			} else {
				hessian[i][i] = 1e-9
			}
		}
		for r, x := range rows {
			z := 0.0
			for i := range x {
				z += theta[i] * x[i]
			}
			p, y := sigmoid(z), 0.0
			if examples[r].True {
				y = 1
			}
			for i := range x {
				gradient[i] += weights[r] * (y - p) * x[i]
				for j := range i + 1 {
					hessian[i][j] += weights[r] * p * (1 - p) * x[i] * x[j]
				}
			}
		}
		step := solve(hessian, gradient)
		var moved float64
		for i := range theta {
			theta[i] += step[i]
			moved += step[i] * step[i]
		}
		if moved < fitEnough {
			break
		}
	}
	return theta
}

// solve solves a·x = b for a symmetric positive definite a, of which the lower triangle is given, by Cholesky's decomposition, in place.
func solve(a [][]float64, b []float64) []float64 {
	n := len(b)
	for i := range n {
		for j := range i + 1 {
			sum := a[i][j]
			for k := range j {
				sum -= a[i][k] * a[j][k]
			}
			if i == j {
				a[i][i] = math.Sqrt(max(sum, 1e-12))
			} else {
				a[i][j] = sum / a[j][j]
			}
		}
	}
	x := slices.Clone(b)
	for i := range n {
		for k := range i {
			x[i] -= a[i][k] * x[k]
		}
		x[i] /= a[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			x[i] -= a[k][i] * x[k]
		}
		x[i] /= a[i][i]
	}
	return x
}
