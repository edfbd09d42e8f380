/*! Plimsoll. SPDX-License-Identifier: Apache-2.0
 * Contains Preact, (c) 2015-present Jason Miller, and uPlot, (c) Leon Sorokin: MIT, see THIRD-PARTY.md */(function(){"use strict"})();
