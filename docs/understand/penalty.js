/* The penalty on the smallest problem there is: the mean of N Gaussian points, sampled with mini-batches.

   Points y_j with mean 0 and variance 1, y_j ~ N(theta, 1), prior N(0, 1): the posterior is N(0, 1 / (N + 1)). In its
   standard deviations, x = theta sqrt(N + 1), a random walk moves by h = sqrt(2 eta (N + 1)) e, and

       Delta   = (x'^2 - x^2) / 2                      the loss difference of all points, prior included
       sigma^2 = N^2 / (N + 1) (1 / (n M) - 1 / N) h^2   the variance of its estimate from n M of them

   The noise is taken as Gaussian, so the acceptance of a move is known, and with it the chain's transition matrix on a
   grid of x: what it samples and how often it accepts are computed, not simulated. */
(function () {
  "use strict";

  const N = 100;
  const LARGEST = 16; // Chains are followed to so many posterior standard deviations.
  const REACH = 5; // Moves beyond so many of their standard deviations are left out.

  // log Phi(x), from Chebyshev's fit to erfc (relative error below 1.2e-7; Numerical Recipes, section 6.2).
  const FIT = [
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
    0.17087277,
  ];
  function logPhi(x) {
    const z = Math.abs(x) / Math.SQRT2;
    const t = 1 / (1 + z / 2);
    let sum = 0;
    for (let k = FIT.length - 1; k >= 0; k--) sum = sum * t + FIT[k];
    const tail = Math.log(t / 2) - z * z + sum;
    return x < 0 ? tail : Math.log1p(-Math.exp(tail));
  }

  // E min(1, exp(-a - sigma z)) for a standard normal z: what a move is accepted with, over all mini-batches.
  function meanAcceptance(a, sigma) {
    if (sigma < 1e-9) return Math.min(1, Math.exp(-a));
    return (
      Math.exp(logPhi(-a / sigma)) + Math.exp(Math.min(0, -a + sigma * sigma / 2 + logPhi(a / sigma - sigma)))
    );
  }

  // s^2 / sigma^2 of a variance estimated from M mini-batches, chi-squared / nu with nu = M - 1: nodes and weights.
  function estimatedVariances(nu) {
    const nodes = [], top = Math.sqrt(nu) + 5, count = 40;
    let total = 0;
    for (let k = 0; k <= count; k++) {
      const r = (top * k) / count;
      const weight = (k === 0 || k === count ? 0.5 : 1) * Math.pow(r, nu - 1) * Math.exp(-r * r / 2);
      nodes.push([r * r / nu, weight]);
      total += weight;
    }
    return nodes.filter((node) => node[1] > 1e-9 * total).map((node) => [node[0], node[1] / total]);
  }

  // The rules of acceptance, as functions of Delta and sigma.
  function rules(numBatches) {
    const estimates = numBatches > 1 ? estimatedVariances(numBatches - 1) : null;
    return {
      exact: (delta) => Math.min(1, Math.exp(-delta)),
      naive: meanAcceptance,
      known: (delta, sigma) => meanAcceptance(delta + sigma * sigma / 2, sigma),
      estimated:
        estimates &&
        ((delta, sigma) =>
          estimates.reduce((sum, [ratio, weight]) => sum + weight * meanAcceptance(delta + ratio * sigma * sigma / 2, sigma), 0)),
    };
  }

  // What a chain samples. Everything is even in x, so |x| is a chain too: states 0, dx, 2 dx, ...
  function stationary(rule, stepSd, noise) {
    const dx = Math.min(0.2, Math.max(0.05, stepSd / 4));
    const size = Math.round(LARGEST / dx) + 1, reach = Math.ceil((REACH * stepSd) / dx);
    const proposal = [];
    let total = 0;
    for (let k = -reach; k <= reach; k++) {
      const weight = Math.exp(-Math.pow((k * dx) / stepSd, 2) / 2);
      proposal.push(weight);
      total += weight;
    }
    const moves = Array.from({ length: size }, () => new Float64Array(size));
    const accepted = new Float64Array(size);
    for (let i = 0; i < size; i++) {
      for (let k = -reach; k <= reach; k++) {
        const j = i + k;
        if (k === 0 || Math.abs(j) >= size) {
          // Moves shorter than half a cell, a quarter of one on average: the state stays, and some are rejected.
          if (k === 0) accepted[i] += (proposal[reach] / total) * rule(0, (noise * dx) / 4);
          continue;
        }
        const probability =
          (proposal[k + reach] / total) * rule((dx * dx * (j * j - i * i)) / 2, noise * Math.abs(k) * dx);
        moves[i][Math.abs(j)] += probability;
        accepted[i] += probability;
      }
    }
    const weights = solve(moves, reach);
    let variance = 0, acceptance = 0;
    weights.forEach((weight, i) => {
      variance += weight * i * i * dx * dx;
      acceptance += weight * accepted[i];
    });
    // A state away from 0 stands for x and -x.
    const density = Array.from(weights, (weight, i) => [i * dx, weight / (i === 0 ? dx : 2 * dx)]);
    return { sd: Math.sqrt(variance), acceptance, density };
  }

  // The stationary distribution of a chain, by eliminating one state after the other (Grassmann, Taksar and Heyman,
  // 1985): no subtractions, so no digits are lost. No move is longer than `reach` states.
  function solve(moves, reach) {
    const size = moves.length;
    for (let last = size - 1; last > 0; last--) {
      const first = Math.max(0, last - reach);
      let out = 0;
      for (let j = first; j < last; j++) out += moves[last][j];
      for (let i = first; i < last; i++) {
        moves[i][last] /= out;
        for (let j = first; j < last; j++) moves[i][j] += moves[i][last] * moves[last][j];
      }
    }
    const weights = new Float64Array(size);
    weights[0] = 1;
    let total = 1;
    for (let j = 1; j < size; j++) {
      for (let i = Math.max(0, j - reach); i < j; i++) weights[j] += weights[i] * moves[i][j];
      total += weights[j];
    }
    return weights.map((weight) => weight / total);
  }

  // All the numbers of the picture.
  function answer(batchSize, numBatches, stepSize) {
    const count = batchSize * numBatches;
    if (count > N) throw new Error(`n M = ${count} exceeds the ${N} points`);
    const stepSd = Math.sqrt(2 * stepSize * (N + 1));
    const noise = N * Math.sqrt((1 / count - 1 / N) / (N + 1)); // sigma / |h|
    const found = { stepSd, sigma: noise * stepSd, delta: stepSd * stepSd / 2 };
    for (const [name, rule] of Object.entries(rules(numBatches))) {
      found[name] = rule && stationary(rule, stepSd, noise);
    }
    return found;
  }

  // Drawing

  const WIDTH = 320, HEIGHT = 220, LEFT = 12, RIGHT = 12, TOP = 12, BOTTOM = 44;
  const inner = { width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };

  function element(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function panel(svg, low, high, ticks, label) {
    svg.replaceChildren();
    const x = (value) => LEFT + (inner.width * (value - low)) / (high - low);
    const bottom = TOP + inner.height;
    svg.append(element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: bottom, y2: bottom, class: "axis" }));
    for (const tick of ticks) {
      svg.append(element("line", { x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 4, class: "axis" }));
      svg.append(element("text", { x: x(tick), y: bottom + 17, class: "tick" }, String(tick).replace("-", "−")));
    }
    svg.append(element("text", { x: WIDTH / 2, y: HEIGHT - 6, class: "label" }, label));
    return x;
  }

  function curve(points, x, y, low, high) {
    return points
      .filter(([place]) => low <= place && place <= high)
      .map(([place, value], k) => `${k ? "L" : "M"}${x(place).toFixed(1)},${y(value).toFixed(1)}`)
      .join("");
  }

  const percent = (share) => `${(100 * share).toFixed(0)} %`;
  const mirrored = (half) => [...half.slice(1).reverse().map(([x, value]) => [-x, value]), ...half];
  const range = (low, high, count) => Array.from({ length: count + 1 }, (_, k) => low + ((high - low) * k) / count);

  function drawDifference(svg, found) {
    const x = panel(svg, -8, 8, [-8, -4, 0, 4, 8], "estimated loss difference δ");
    const bottom = TOP + inner.height;
    const y = (value) => bottom - 0.8 * inner.height * value;
    const sigma = Math.max(found.sigma, 0.02);
    const bell = range(-8, 8, 320).map((place) => [place, Math.exp(-Math.pow((place - found.delta) / sigma, 2) / 2)]);
    svg.append(element("path", { d: curve(bell, x, y, -8, 8) + `L${x(8)},${bottom}L${x(-8)},${bottom}Z`, class: "naive area" }));
    const lucky = bell.filter(([place]) => place <= 0);
    svg.append(element("path", { d: curve(lucky, x, y, -8, 0) + `L${x(0)},${bottom}L${x(-8)},${bottom}Z`, class: "naive area" }));
    svg.append(element("line", { x1: x(found.delta), x2: x(found.delta), y1: TOP + 14, y2: bottom, class: "exact" }));
    const shift = Math.min(8, found.delta + found.sigma * found.sigma / 2);
    const height = bottom - 8;
    svg.append(element("line", { x1: x(found.delta), x2: x(shift), y1: height, y2: height, class: "penalty" }));
    svg.append(element("path", { d: `M${x(shift)},${height}l-6,-4l0,8Z`, class: "penalty head" }));
    svg.append(element("text", { x: x(Math.min(6, Math.max(found.delta + 1.6, shift))), y: height - 10, class: "tick" }, "σ²/2"));
    svg.append(element("text", { x: x(Math.max(-6, Math.min(6, found.delta))), y: TOP + 8, class: "tick" }, "true Δ"));
  }

  function drawDensities(svg, found, penalty) {
    const x = panel(svg, -6, 6, [-6, -4, -2, 0, 2, 4, 6], "θ, in exact standard deviations");
    const top = 0.42;
    const y = (value) => TOP + inner.height * (1 - Math.min(value, top) / top);
    const bottom = TOP + inner.height;
    const shape = (half, kind) =>
      svg.append(element("path", { d: curve(mirrored(half), x, y, -6, 6) + `L${x(6)},${bottom}L${x(-6)},${bottom}Z`, class: kind }));
    shape(found.naive.density, "naive area");
    svg.append(element("path", { d: curve(mirrored(penalty.density), x, y, -6, 6), class: "penalty" }));
    const exact = range(-6, 6, 240).map((place) => [place, Math.exp(-place * place / 2) / Math.sqrt(2 * Math.PI)]);
    svg.append(element("path", { d: curve(exact, x, y, -6, 6), class: "exact" }));
  }

  function drawAcceptance(svg, found, penalty) {
    const x = panel(svg, 0, 100, [0, 25, 50, 75, 100], "accepted moves, %");
    const bars = [["all data", found.exact, "reference bar"], ["no penalty", found.naive, "naive bar"], ["penalty", penalty, "penalty bar"]];
    bars.forEach(([name, one, kind], k) => {
      const y = TOP + 4 + (k * inner.height) / 3;
      svg.append(element("text", { x: LEFT, y: y + 11, class: "name" }, `${name}: ${percent(one.acceptance)}`));
      svg.append(element("rect", { x: LEFT, y: y + 17, width: Math.max(1, x(100 * one.acceptance) - LEFT), height: 16, class: kind }));
    });
  }

  function start(root) {
    const input = (name) => root.querySelector(`[name=${name}]`);
    const drawn = (name) => root.querySelector(`svg.${name}`);
    function update() {
      const numBatches = Number(input("M").value);
      input("n").max = Math.floor(N / numBatches);
      const batchSize = Number(input("n").value), stepSize = Math.pow(10, Number(input("eta").value));
      const isEstimated = input("estimated").checked && numBatches > 1;
      input("estimated").disabled = numBatches === 1;
      const found = answer(batchSize, numBatches, stepSize);
      const penalty = isEstimated ? found.estimated : found.known;
      const words = { n: String(batchSize), M: String(numBatches), eta: stepSize.toPrecision(1) };
      for (const [name, text] of Object.entries(words)) {
        root.querySelector(`output[for=penalty-${name}]`).textContent = text;
        input(name).setAttribute("aria-valuetext", text);
      }
      drawDifference(drawn("difference"), found);
      drawDensities(drawn("densities"), found, penalty);
      drawAcceptance(drawn("acceptance"), found, penalty);
      root.querySelector(".said").textContent =
        `A step reads ${batchSize * numBatches} of ${N} points; a typical move's noise has σ² = ${(found.sigma * found.sigma).toPrecision(2)}. ` +
        `Without the penalty the chain is ${found.naive.sd.toFixed(2)} times as wide as it should be; with it, ` +
        `${penalty.sd.toFixed(2)} times${isEstimated ? `, the variance being estimated from ${numBatches} mini-batches` : ""}. ` +
        `The price: ${percent(penalty.acceptance)} of the moves are accepted, instead of ${percent(found.exact.acceptance)} with all data.`;
    }
    root.addEventListener("input", update);
    root.hidden = false;
    update();
  }

  window.penaltyPicture = { answer };
  document.querySelectorAll(".penalty-picture").forEach(start);
})();
